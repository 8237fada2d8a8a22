//! `cdb deadletters`: lists, shows, redrives and discards dead letters.

use async_trait::async_trait;
use cdb_model::Timestamp;
use clap::{Args, Subcommand};

use super::redrive::{Chosen, FailedMessages, Name};
use crate::connection::Connection;
use crate::container::dead_letter_id::{DeadLetterId, parse_dead_letter_id};
use crate::container::dead_letters::{Action, DeadLetterSources, FoundDeadLetter};
use crate::container::paging::{PageStart, TwoLists as _};
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::model::messages::Outcome;
use crate::output::Console;
use crate::view::messages::dead_letters::{
    DeadLetterDetail, DeadLetterList, Row, dead_letter_table,
};

/// The number of names per page.
const PAGE: usize = 100;

#[derive(Debug, Args)]
pub(crate) struct DeadLettersArgs {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: DeadLettersCommand,
}

#[derive(Debug, Subcommand)]
enum DeadLettersCommand {
    /// List dead letters with their reasons, oldest first: those between instances, then those
    /// between partitions
    List {
        /// Maximum number of dead letters
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
        /// Start of the page: `next` of the previous page's JSON
        #[arg(long, value_name = "TEXT")]
        from: Option<PageStart>,
    },
    /// Show a dead letter with its contents and attempts
    Show {
        /// Name, as `deadletters list` shows it
        #[arg(value_parser = parse_dead_letter_id)]
        name: DeadLetterId,
    },
    /// Send dead letters again as new messages, after the cause of the failure is fixed
    Redrive(Chosen<DeadLetterId>),
    /// Delete dead letters; their messages are never delivered
    Discard(Chosen<DeadLetterId>),
}

pub(crate) async fn run(
    args: &DeadLettersArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let dead_letters = DeadLetterSources::open(&args.connection, model).await?;
    match &args.command {
        DeadLettersCommand::List { limit, from } => {
            let page = dead_letters.page(usize::from(*limit), from.clone()).await?;
            console.answer(&DeadLetterList::new(&page, dead_letters.now()))?;
        }
        DeadLettersCommand::Show { name } => {
            console.answer(&DeadLetterDetail::of(&find(&dead_letters, name).await?))?;
        }
        DeadLettersCommand::Redrive(chosen) => {
            return chosen.run(&dead_letters, Action::Redrive, console).await;
        }
        DeadLettersCommand::Discard(chosen) => {
            return chosen.run(&dead_letters, Action::Discard, console).await;
        }
    }
    Ok(Exit::Ok)
}

async fn find(
    dead_letters: &DeadLetterSources,
    name: &DeadLetterId,
) -> Result<FoundDeadLetter, Failure> {
    let found = dead_letters.find(name).await?;
    found.ok_or_else(|| Failure::finding(format!("dead letter `{name}` does not exist")))
}

impl Name for DeadLetterId {
    fn parse(text: &str) -> Result<Self, String> {
        parse_dead_letter_id(text)
    }
}

#[async_trait]
impl FailedMessages for DeadLetterSources {
    type Name = DeadLetterId;
    type Row = Row;

    const NOUN: &'static str = "dead letter";
    const MEMBER: &'static str = "deadLetters";
    const ABSENT: &'static str = "not found";

    fn now(&self) -> Timestamp {
        Self::now(self)
    }

    async fn names(&self) -> Result<Vec<DeadLetterId>, Failure> {
        let mut names = Vec::new();
        let mut from = None;
        loop {
            let page = self.page(PAGE, from).await?;
            names.extend(page.rows.iter().map(FoundDeadLetter::name));
            from = page.next;
            if from.is_none() {
                return Ok(names);
            }
        }
    }

    async fn row(&self, name: &DeadLetterId) -> Result<Option<Row>, Failure> {
        Ok(self.find(name).await?.as_ref().map(Row::of))
    }

    async fn apply(&self, name: &DeadLetterId, action: Action) -> Result<Outcome, Failure> {
        Self::apply(self, name, action).await
    }

    fn table(rows: &[Row], now: Timestamp) -> String {
        dead_letter_table(rows, now)
    }
}
