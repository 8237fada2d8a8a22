//! `cdb work`: lists the failed messages of ordered work, with their errors, and redrives and discards
//! those that are set aside.

use std::fmt;

use async_trait::async_trait;
use cdb_model::{Document as _, DocumentKey as _, Timestamp};
use cdb_work::{WorkAdmin, WorkError, WorkMessageKey};
use clap::{Args, Subcommand};

use super::redrive::{Chosen, FailedMessages, Name};
use crate::connection::Connection;
use crate::container::Holdings;
use crate::container::dead_letters::Action;
use crate::container::paging::PageStart;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::model::messages::Outcome;
use crate::output::Console;
use crate::view::messages::ordered_work::{self, WorkRow};

/// The number of names per page.
const PAGE: usize = 100;

#[derive(Debug, Args)]
// Otherwise `work --limit 5 redrive --all` would ignore the limit.
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct WorkArgs {
    #[command(subcommand)]
    command: Option<WorkCommand>,
    /// Maximum number of rows
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Start of the page: `next` of the previous page's JSON
    #[arg(long, value_name = "TEXT")]
    from: Option<PageStart>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Subcommand)]
enum WorkCommand {
    /// Retry messages that are set aside, with all their attempts, after the handler is fixed
    Redrive(Chosen<WorkName>),
    /// Complete messages that are set aside without handling them, so that their streams go on
    Discard(Chosen<WorkName>),
}

/// The name of a message: the id of its document.
#[derive(Clone, Debug)]
struct WorkName(WorkMessageKey);

pub(crate) async fn run(
    args: &WorkArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let holdings = Holdings::open(&args.connection, model).await?;
    match &args.command {
        None => {
            let rows = usize::from(args.limit);
            console.answer(&ordered_work::read(&holdings, rows, args.from.clone()).await?)?;
            Ok(Exit::Ok)
        }
        Some(WorkCommand::Redrive(chosen)) => {
            let work = SetAside::of(&holdings)?;
            chosen.run(&work, Action::Redrive, console).await
        }
        Some(WorkCommand::Discard(chosen)) => {
            let work = SetAside::of(&holdings)?;
            chosen.run(&work, Action::Discard, console).await
        }
    }
}

/// The messages that are set aside.
struct SetAside<'a> {
    admin: &'a WorkAdmin,
    holdings: &'a Holdings,
}

impl<'a> SetAside<'a> {
    fn of(holdings: &'a Holdings) -> Result<Self, Failure> {
        let admin = ordered_work::admin(holdings)?;
        Ok(Self { admin, holdings })
    }
}

#[async_trait]
impl FailedMessages for SetAside<'_> {
    type Name = WorkName;
    type Row = WorkRow;

    const NOUN: &'static str = "message";
    const MEMBER: &'static str = "messages";
    const ABSENT: &'static str = "not set aside";

    fn now(&self) -> Timestamp {
        self.holdings.now()
    }

    async fn names(&self) -> Result<Vec<WorkName>, Failure> {
        let mut names = Vec::new();
        let mut from = None;
        loop {
            let page = self.admin.set_aside(PAGE, from.as_ref()).await?;
            names.extend(page.rows.iter().map(|message| WorkName(message.key())));
            from = page.next;
            if from.is_none() {
                return Ok(names);
            }
        }
    }

    async fn row(&self, name: &WorkName) -> Result<Option<WorkRow>, Failure> {
        Ok(self.admin.find_set_aside(&name.0).await?.map(WorkRow::of))
    }

    async fn apply(&self, name: &WorkName, action: Action) -> Result<Outcome, Failure> {
        let Some(message) = self.admin.find_set_aside(&name.0).await? else {
            return Ok(Outcome::Gone);
        };
        let applied = match action {
            Action::Redrive => self.admin.redrive(&message).await,
            Action::Discard => self.admin.discard(&message).await,
        };
        match applied {
            Ok(()) => Ok(Outcome::Done),
            Err(WorkError::NotSetAside { .. }) => Ok(Outcome::Gone),
            Err(WorkError::Service(error)) => Err(Failure::from(&*error)),
            Err(error) => Err(Failure::service(error.to_string())),
        }
    }

    fn table(rows: &[WorkRow], now: Timestamp) -> String {
        ordered_work::work_table(rows, now)
    }
}

impl Name for WorkName {
    fn parse(text: &str) -> Result<Self, String> {
        let key = WorkMessageKey::parse(text);
        key.map(Self).map_err(|_| {
            format!("`{text}` is not the name of a message; use a name from `work`, as work-000:message:LANE:STREAM:MESSAGE")
        })
    }
}

impl fmt::Display for WorkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&ordered_work::name(&self.0))
    }
}
