//! `cdb deadletters`: what was given up, to look at, to have tried again, to throw away.

use std::fmt;

use cdb_model::Timestamp;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::connection::Connection;
use crate::consent::{Consent, Intent};
use crate::dead_letter_id::{DeadLetterId, parse_dead_letter_id};
use crate::dead_letters::{DeadLetterOffice, Fate, Letter, Place};
use crate::exit::{Exit, Failure};
use crate::message_dead_letters::Settled;
use crate::model::Model;
use crate::output::Console;
use crate::view::dead_letters::{DeadLetterDetail, LetterList, Row, letter_table};

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
        from: Option<Place>,
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
    consent: Consent,
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
    let office = DeadLetterOffice::open(&args.connection, model).await?;
    match &args.command {
        DeadLettersCommand::List { limit, from } => {
            let page = office.page(usize::from(*limit), from.clone()).await?;
            console.answer(&LetterList::from(page))?;
        }
        DeadLettersCommand::Show { name } => {
            console.answer(&DeadLetterDetail::of(&find(&office, name).await?))?;
        }
        DeadLettersCommand::Redrive(chosen) => {
            return chosen.run(&office, Fate::Redrive, console).await;
        }
        DeadLettersCommand::Discard(chosen) => {
            return chosen.run(&office, Fate::Discard, console).await;
        }
    }
    Ok(Exit::Ok)
}

async fn find(office: &DeadLetterOffice, name: &DeadLetterId) -> Result<Letter, Failure> {
    let found = office.find(name).await?;
    found.ok_or_else(|| Failure::finding(format!("there is no dead letter `{name}`")))
}

impl Chosen {
    async fn run(
        &self,
        office: &DeadLetterOffice,
        fate: Fate,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        let plan = self.which.plan(office, fate).await?;
        if let Some(exit) = self.consent.refuses(&plan, console)? {
            return Ok(exit);
        }
        let names = if self.which.all {
            all(office).await?
        } else {
            self.which.names.clone()
        };
        let mut done = Done {
            action: match fate {
                Fate::Redrive => "redrove",
                Fate::Discard => "discarded",
            },
            dead_letters: 0,
            gone: 0,
        };
        for (number, name) in names.iter().enumerate() {
            match office.settle(name, fate).await? {
                Settled::Done => done.dead_letters += 1,
                Settled::Gone => done.gone += 1,
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
    async fn plan(&self, office: &DeadLetterOffice, fate: Fate) -> Result<Plan, Failure> {
        let mut plan = Plan {
            action: match fate {
                Fate::Redrive => "redrive",
                Fate::Discard => "discard",
            },
            count: 0,
            dead_letters: Vec::new(),
            now: office.now(),
        };
        if self.all {
            plan.count = office.count().await?;
        } else {
            for name in &self.names {
                plan.dead_letters.push(Row::of(&find(office, name).await?));
            }
            plan.count = plan.dead_letters.len() as u64;
        }
        Ok(plan)
    }
}

/// The names of all, read before any of them is touched: what is redriven and fails again is not met twice.
async fn all(office: &DeadLetterOffice) -> Result<Vec<DeadLetterId>, Failure> {
    let mut names = Vec::new();
    let mut from = None;
    loop {
        let page = office.page(STEP, from).await?;
        names.extend(page.letters.iter().map(Letter::name));
        from = page.next;
        if from.is_none() {
            return Ok(names);
        }
    }
}

impl Intent for Plan {
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
        f.write_str(&letter_table(&self.dead_letters, self.now))
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
