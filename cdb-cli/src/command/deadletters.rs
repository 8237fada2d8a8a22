//! `cdb deadletters`: what was given up, to look at, to have tried again, to throw away.

use std::fmt;

use cdb_model::Timestamp;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::confirm::{Confirmation, Planned};
use crate::connection::Connection;
use crate::dead_letter_id::{DeadLetterId, parse_dead_letter_id};
use crate::dead_letters::{Action, DeadLetterSources, FoundDeadLetter, PageStart};
use crate::exit::{Exit, Failure};
use crate::message_dead_letters::Outcome;
use crate::model::Model;
use crate::output::Console;
use crate::view::dead_letters::{DeadLetterDetail, DeadLetterList, Row, dead_letter_table};

/// How many names are read at once, and how often progress is told.
const STEP: usize = 100;

#[derive(Debug, Args)]
pub(crate) struct DeadLettersArgs {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: DeadLettersCommand,
}

#[derive(Debug, Subcommand)]
enum DeadLettersCommand {
    /// List dead letters and their reasons by the page, the oldest first: between instances, then between partitions
    List {
        /// How many to show
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
        /// Go on where an earlier page ended
        #[arg(long, value_name = "TEXT")]
        from: Option<PageStart>,
    },
    /// Show one dead letter: what it holds, and each attempt
    Show {
        /// Its name, as the list shows it
        #[arg(value_parser = parse_dead_letter_id)]
        name: DeadLetterId,
    },
    /// Have dead letters tried again as if they were new, once what stopped them is mended
    Redrive(Chosen),
    /// Throw dead letters away; whoever waits for one waits on
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
    /// Their names, as the list shows them
    #[arg(value_name = "NAME", value_parser = parse_dead_letter_id)]
    names: Vec<DeadLetterId>,
    /// All that there are now
    #[arg(long)]
    all: bool,
}

/// What would be done.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Plan {
    #[serde(rename = "would")]
    action: &'static str,
    count: u64,
    dead_letters: Vec<Row>,
    now: Timestamp,
}

/// What was done, in numbers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Done {
    action: &'static str,
    dead_letters: u64,
    /// Those that somebody else had redriven or discarded meanwhile.
    gone: u64,
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
            console.answer(&DeadLetterList::from(page))?;
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
    found.ok_or_else(|| Failure::finding(format!("there is no dead letter `{name}`")))
}

impl Chosen {
    async fn run(
        &self,
        dead_letters: &DeadLetterSources,
        action: Action,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        let plan = self.which.plan(dead_letters, action).await?;
        if let Some(exit) = self.confirmation.stop_unless_given(&plan, console)? {
            return Ok(exit);
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
        };
        for (number, name) in names.iter().enumerate() {
            match dead_letters.apply(name, action).await? {
                Outcome::Done => done.dead_letters += 1,
                Outcome::Gone => done.gone += 1,
            }
            if (number + 1) % STEP == 0 {
                console.progress(format!("{} of {} dead letters", number + 1, names.len()))?;
            }
        }
        console.answer(&done)?;
        Ok(Exit::Ok)
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

/// The names of all, read before any of them is touched: what is redriven and fails again is not met twice.
async fn all(dead_letters: &DeadLetterSources) -> Result<Vec<DeadLetterId>, Failure> {
    let mut names = Vec::new();
    let mut from = None;
    loop {
        let page = dead_letters.page(STEP, from).await?;
        names.extend(page.letters.iter().map(FoundDeadLetter::name));
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
        writeln!(f, "would {} {} dead letter(s)", self.action, self.count)?;
        if self.dead_letters.is_empty() {
            return Ok(());
        }
        f.write_str(&dead_letter_table(&self.dead_letters, self.now))
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} dead letter(s)", self.action, self.dead_letters)?;
        if self.gone > 0 {
            write!(f, "; {} were gone already", self.gone)?;
        }
        Ok(())
    }
}
