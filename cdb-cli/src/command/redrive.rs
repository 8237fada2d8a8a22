//! Redrives and discards messages that failed for good, for `cdb deadletters` and `cdb work`.

use std::fmt;

use async_trait::async_trait;
use cdb_model::Timestamp;
use clap::Args;
use serde::{Serialize, Serializer};

use crate::confirm::{Confirmation, PlanDigest, PlanItem, Planned, check_planned};
use crate::dead_letters::Action;
use crate::exit::{Exit, Failure};
use crate::messages::Outcome;
use crate::output::{Console, counted};

/// The number of messages between two progress reports.
const BATCH: usize = 100;

/// The name of a message on a command line.
pub(super) trait Name: fmt::Display + fmt::Debug + Clone + Send + Sync + 'static {
    /// Parses the name that the list shows.
    fn parse(text: &str) -> Result<Self, String>;
}

/// The messages of a container that wait for an operator.
#[async_trait]
pub(super) trait FailedMessages: Sync {
    type Name: Name;
    type Row: Serialize + Send;

    /// The noun for one message.
    const NOUN: &'static str;
    /// The JSON member for several messages.
    const MEMBER: &'static str;

    fn now(&self) -> Timestamp;

    /// Reads the names of all messages.
    async fn names(&self) -> Result<Vec<Self::Name>, Failure>;

    /// Reads a message.
    ///
    /// # Errors
    /// When the message does not exist.
    async fn row(&self, name: &Self::Name) -> Result<Self::Row, Failure>;

    /// Redrives or discards a message. Returns [`Outcome::Gone`] when another process did so first.
    async fn apply(&self, name: &Self::Name, action: Action) -> Result<Outcome, Failure>;

    fn table(rows: &[Self::Row], now: Timestamp) -> String;
}

/// The arguments of `redrive` and `discard`.
#[derive(Debug, Args)]
pub(super) struct Chosen<N: Name> {
    #[command(flatten)]
    which: Which<N>,
    #[command(flatten)]
    confirmation: Confirmation,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Which<N: Name> {
    /// Names, as the list shows them
    #[arg(value_name = "NAME", value_parser = N::parse)]
    names: Vec<N>,
    /// All that exist now
    #[arg(long)]
    all: bool,
}

/// A JSON object with one member, whose name differs between the kinds of messages.
#[derive(Debug)]
struct Member<T>(&'static str, T);

/// The plan without `--yes`.
#[derive(Serialize)]
struct Plan<F: FailedMessages> {
    #[serde(rename = "would")]
    action: &'static str,
    count: u64,
    /// The digest of all messages, if the plan lists none of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(flatten)]
    messages: Member<Vec<F::Row>>,
    now: Timestamp,
}

/// The result of a command, in numbers.
#[derive(Debug, Serialize)]
struct Done<'a> {
    action: &'static str,
    /// The name of the operator.
    by: &'a str,
    #[serde(flatten)]
    messages: Member<u64>,
    /// The number that another process had redriven or discarded before.
    gone: u64,
    /// Those that stay, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<String>,
    #[serde(skip)]
    noun: &'static str,
}

impl<N: Name> Chosen<N> {
    pub(super) async fn run<F: FailedMessages<Name = N>>(
        &self,
        messages: &F,
        action: Action,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        let names = if self.which.all {
            // All names before the first change, so that a message that fails again is not processed
            // twice.
            messages.names().await?
        } else {
            self.which.names.clone()
        };
        let plan = self.which.plan(messages, &names, action).await?;
        if self.confirmation.is_missing() {
            return self.confirmation.stop(&plan, console);
        }
        if let Some(planned) = self.confirmation.planned() {
            check_planned(plan.digest(), planned)?;
        }
        let mut done = Done {
            action: match action {
                Action::Redrive => "redrove",
                Action::Discard => "discarded",
            },
            by: &self.confirmation.operator.by,
            messages: Member(F::MEMBER, 0),
            gone: 0,
            refused: Vec::new(),
            noun: F::NOUN,
        };
        for (number, name) in names.iter().enumerate() {
            match messages.apply(name, action).await {
                Ok(Outcome::Done) => done.messages.1 += 1,
                Ok(Outcome::Gone) => done.gone += 1,
                Err(refused) if names.len() == 1 => return Err(refused),
                // One message must not stop the others; the next run finds it again.
                Err(refused) => done.refused.push(format!("{name}: {}", refused.message)),
            }
            if (number + 1) % BATCH == 0 {
                let noun = F::NOUN;
                console.progress(format!("{} of {} {noun}s", number + 1, names.len()))?;
            }
        }
        console.answer(&done)?;
        if done.refused.is_empty() {
            return Ok(Exit::Ok);
        }
        Ok(Exit::Finding)
    }
}

impl<N: Name> Which<N> {
    async fn plan<F: FailedMessages<Name = N>>(
        &self,
        messages: &F,
        all: &[N],
        action: Action,
    ) -> Result<Plan<F>, Failure> {
        let mut rows = Vec::new();
        for name in &self.names {
            rows.push(messages.row(name).await?);
        }
        let digest = self.all.then(|| {
            let mut digest = PlanDigest::default();
            for name in all {
                digest.add(PlanItem::of(&[&name.to_string()]));
            }
            digest.finish()
        });
        Ok(Plan {
            action: match action {
                Action::Redrive => "redrive",
                Action::Discard => "discard",
            },
            count: all.len() as u64,
            digest,
            messages: Member(F::MEMBER, rows),
            now: messages.now(),
        })
    }
}

impl<T: Serialize> Serialize for Member<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(self.0, &self.1)])
    }
}

impl<F: FailedMessages> Planned for Plan<F> {
    fn count(&self) -> u64 {
        self.count
    }

    fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }
}

impl<F: FailedMessages> fmt::Display for Plan<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = counted(self.count, F::NOUN);
        writeln!(f, "would {} {what}", self.action)?;
        let Member(_, rows) = &self.messages;
        if rows.is_empty() {
            return Ok(());
        }
        f.write_str(&F::table(rows, self.now))
    }
}

impl fmt::Display for Done<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = counted(self.messages.1, self.noun);
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
