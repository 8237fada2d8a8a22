//! `cdb deadletters`: lists, shows, redrives and discards dead letters.

use std::fmt;

use cdb_model::Timestamp;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::confirm::{Confirmation, Planned};
use crate::connection::Connection;
use crate::dead_letter_id::{DeadLetterId, parse_dead_letter_id};
use crate::dead_letters::{Action, DeadLetterSources, FoundDeadLetter};
use crate::exit::{Exit, Failure};
use crate::messages::Outcome;
use crate::model::Model;
use crate::output::{Console, counted};
use crate::paging::{PageStart, TwoLists as _};
use crate::view::dead_letters::{DeadLetterDetail, DeadLetterList, Row, dead_letter_table};

/// The number of names per page, and of dead letters between two progress reports.
const BATCH: usize = 100;

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
    Redrive(Chosen),
    /// Delete dead letters; their messages are never delivered
    Discard(Chosen),
}

#[derive(Debug, Args)]
struct Chosen {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    confirmation: Confirmation,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// Names, as `deadletters list` shows them
    #[arg(value_name = "NAME", value_parser = parse_dead_letter_id)]
    names: Vec<DeadLetterId>,
    /// All dead letters that exist now
    #[arg(long)]
    all: bool,
}

/// The plan without `--yes`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Plan {
    #[serde(rename = "would")]
    action: &'static str,
    count: u64,
    dead_letters: Vec<Row>,
    now: Timestamp,
}

/// The result of a command, in numbers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Done {
    action: &'static str,
    dead_letters: u64,
    /// The number that another process had redriven or discarded before.
    gone: u64,
    /// Those that stay, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<String>,
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

impl Chosen {
    async fn run(
        &self,
        dead_letters: &DeadLetterSources,
        action: Action,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        let plan = self.which.plan(dead_letters, action).await?;
        if self.confirmation.is_missing() {
            return self.confirmation.stop(&plan, console);
        }
        let names = if self.which.all {
            all(dead_letters).await?
        } else {
            self.which.names.clone()
        };
        let mut done = Done {
            action: match action {
                Action::Redrive => "redrove",
                Action::Discard => "discarded",
            },
            dead_letters: 0,
            gone: 0,
            refused: Vec::new(),
        };
        for (number, name) in names.iter().enumerate() {
            match dead_letters.apply(name, action).await {
                Ok(Outcome::Done) => done.dead_letters += 1,
                Ok(Outcome::Gone) => done.gone += 1,
                Err(refused) if names.len() == 1 => return Err(refused),
                // One dead letter must not stop the others; the next run finds it again.
                Err(refused) => done.refused.push(format!("{name}: {}", refused.message)),
            }
            if (number + 1) % BATCH == 0 {
                console.progress(format!("{} of {} dead letters", number + 1, names.len()))?;
            }
        }
        console.answer(&done)?;
        if done.refused.is_empty() {
            return Ok(Exit::Ok);
        }
        Ok(Exit::Finding)
    }
}

impl Which {
    async fn plan(
        &self,
        dead_letters: &DeadLetterSources,
        action: Action,
    ) -> Result<Plan, Failure> {
        let mut plan = Plan {
            action: match action {
                Action::Redrive => "redrive",
                Action::Discard => "discard",
            },
            count: 0,
            dead_letters: Vec::new(),
            now: dead_letters.now(),
        };
        if self.all {
            plan.count = dead_letters.count().await?;
        } else {
            for name in &self.names {
                plan.dead_letters
                    .push(Row::of(&find(dead_letters, name).await?));
            }
            plan.count = plan.dead_letters.len() as u64;
        }
        Ok(plan)
    }
}

/// Reads the names of all dead letters before the first change, so that one that fails again is not
/// processed twice.
async fn all(dead_letters: &DeadLetterSources) -> Result<Vec<DeadLetterId>, Failure> {
    let mut names = Vec::new();
    let mut from = None;
    loop {
        let page = dead_letters.page(BATCH, from).await?;
        names.extend(page.rows.iter().map(FoundDeadLetter::name));
        from = page.next;
        if from.is_none() {
            return Ok(names);
        }
    }
}

impl Planned for Plan {
    fn count(&self) -> u64 {
        self.count
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = counted(self.count, "dead letter");
        writeln!(f, "would {} {what}", self.action)?;
        if self.dead_letters.is_empty() {
            return Ok(());
        }
        f.write_str(&dead_letter_table(&self.dead_letters, self.now))
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = counted(self.dead_letters, "dead letter");
        write!(f, "{} {what}", self.action)?;
        if self.gone > 0 {
            write!(f, "; {} no longer existed", self.gone)?;
        }
        for refused in &self.refused {
            write!(f, "\nnot {}: {refused}", self.action)?;
        }
        Ok(())
    }
}
