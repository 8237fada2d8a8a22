//! `cdb dashboard`: a page on this machine.

use std::net::Ipv4Addr;

use clap::Args;
use serde::Serialize;
use tokio::net::TcpListener;

use crate::connection::Connection;
use crate::dashboard::{Dashboard, Token};
use crate::dead_letters::DeadLetterSources;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::orchestrations::Orchestrations;
use crate::output::Console;

#[derive(Debug, Args)]
pub(crate) struct DashboardArgs {
    #[command(flatten)]
    connection: Connection,
    /// Port to listen on, on the loopback address; 0 for any free one
    #[arg(long, value_name = "PORT", default_value_t = 8090)]
    port: u16,
    /// Let the page cancel, raise, delete, redrive and discard; the address that is shown then holds a token
    #[arg(long)]
    allow_actions: bool,
}

/// Where the page is.
#[derive(Serialize)]
struct Address {
    address: String,
    actions: bool,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let may = if self.actions {
            "it may change things"
        } else {
            "read-only"
        };
        write!(f, "dashboard at {} ({may}); ctrl-c ends it", self.address)
    }
}

pub(crate) async fn run(
    args: &DashboardArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    // Fails here, and not in the page, when the account or the container is not there.
    let dead_letters = DeadLetterSources::open(&args.connection, model).await?;
    let orchestrations = Orchestrations::open(&args.connection, model).await?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
        .await
        .map_err(|error| {
            Failure::usage(format!(
                "cannot listen on port {}: {error}; choose another with --port, or 0 for any",
                args.port
            ))
        })?;
    let token = args.allow_actions.then(Token::random);
    let fragment = token
        .as_ref()
        .map(|token| format!("#token={}", token.as_str()))
        .unwrap_or_default();
    console.answer(&Address {
        address: format!(
            "http://localhost:{}/{fragment}",
            listener.local_addr()?.port()
        ),
        actions: args.allow_actions,
    })?;
    console.flush()?;
    Dashboard::new(orchestrations, dead_letters, model.name, token)
        .serve(listener)
        .await?;
    Ok(Exit::Ok)
}
