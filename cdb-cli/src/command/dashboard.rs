//! `cdb dashboard`: a local web page.

use std::net::Ipv4Addr;

use clap::Args;
use serde::Serialize;
use tokio::net::TcpListener;

use crate::connection::Connection;
use crate::container::Holdings;
use crate::dashboard::{Dashboard, Token};
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::Console;

#[derive(Debug, Args)]
pub(crate) struct DashboardArgs {
    #[command(flatten)]
    connection: Connection,
    /// Port on the loopback address; 0 for any free port
    #[arg(long, value_name = "PORT", default_value_t = 8090)]
    port: u16,
    /// Let the page cancel, pause, raise, rewind, restart, delete, redrive and discard
    #[arg(long)]
    allow_actions: bool,
}

/// The address of the page.
#[derive(Serialize)]
struct Address {
    address: String,
    actions: bool,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mode = if self.actions {
            "with actions"
        } else {
            "read-only"
        };
        write!(
            f,
            "dashboard at {} ({mode}); stop it with ctrl-c",
            self.address
        )
    }
}

pub(crate) async fn run(
    args: &DashboardArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    // A missing account or container fails here rather than in the page.
    let holdings = Holdings::open(&args.connection, model).await?;
    let token = Token::random();
    let fragment = format!("#token={}", token.as_str());
    let dashboard = Dashboard::new(holdings, token, args.allow_actions)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
        .await
        .map_err(|error| {
            Failure::usage(format!(
                "cannot listen on port {}: {error}; pass another --port, or 0 for any free port",
                args.port
            ))
        })?;
    console.answer(&Address {
        address: format!(
            "http://localhost:{}/{fragment}",
            listener.local_addr()?.port()
        ),
        actions: args.allow_actions,
    })?;
    console.flush()?;
    dashboard.serve(listener).await?;
    Ok(Exit::Ok)
}
