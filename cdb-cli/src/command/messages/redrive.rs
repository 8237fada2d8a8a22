//! Redrives and discards messages that failed for good, for `cdb deadletters` and `cdb work`.

use std::collections::HashSet;
use std::fmt;

use async_trait::async_trait;
use cdb_model::Timestamp;
use clap::Args;
use serde::{Serialize, Serializer};

use crate::command::confirm::{Confirmation, PlanDigest, PlanItem, Planned, check_planned};
use crate::container::dead_letters::Action;
use crate::exit::{Exit, Failure};
use crate::model::messages::Outcome;
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
    /// The state of a name without a message: "not found".
    const ABSENT: &'static str;

    fn now(&self) -> Timestamp;

    /// Reads the names of all messages.
    async fn names(&self) -> Result<Vec<Self::Name>, Failure>;

    /// Reads a message. Returns `None` when it does not wait for an operator.
    async fn row(&self, name: &Self::Name) -> Result<Option<Self::Row>, Failure>;

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
    #[serde(flatten)]
    absent: Absent,
    now: Timestamp,
}

/// The given names without a message, which an earlier run may have redriven or discarded.
#[derive(Clone, Debug, Serialize)]
struct Absent {
    #[serde(rename = "notFound", skip_serializing_if = "Vec::is_empty")]
    names: Vec<String>,
    #[serde(skip)]
    state: &'static str,
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
    #[serde(flatten)]
    absent: Absent,
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
        let (plan, names) = self.which.plan(messages, action).await?;
        if names.is_empty() && !plan.absent.is_empty() {
            return Err(Failure::finding(plan.absent.to_string()));
        }
        let exit = plan.absent.exit();
        if self.confirmation.is_missing() {
            self.confirmation.stop(&plan, console)?;
            return Ok(exit);
        }
        if let Some(planned) = self.confirmation.planned() {
            check_planned(plan.digest(), planned)?;
        }
        let is_single = names.len() == 1 && plan.absent.is_empty();
        let mut done = Done {
            action: match action {
                Action::Redrive => "redrove",
                Action::Discard => "discarded",
            },
            by: &self.confirmation.operator.by,
            messages: Member(F::MEMBER, 0),
            gone: 0,
            refused: Vec::new(),
            absent: plan.absent,
            noun: F::NOUN,
        };
        for (number, name) in names.iter().enumerate() {
            match messages.apply(name, action).await {
                Ok(Outcome::Done) => done.messages.1 += 1,
                Ok(Outcome::Gone) => done.gone += 1,
                Err(refused) if is_single => return Err(refused),
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
            return Ok(exit);
        }
        Ok(Exit::Finding)
    }
}

impl<N: Name> Which<N> {
    /// Returns the plan, and the names of its messages, each once.
    async fn plan<F: FailedMessages<Name = N>>(
        &self,
        messages: &F,
        action: Action,
    ) -> Result<(Plan<F>, Vec<N>), Failure> {
        let (mut names, mut rows) = (Vec::new(), Vec::new());
        let (mut absent, mut known) = (Vec::new(), HashSet::new());
        for name in &self.names {
            let text = name.to_string();
            if !known.insert(text.clone()) {
                continue;
            }
            match messages.row(name).await? {
                Some(row) => {
                    rows.push(row);
                    names.push(name.clone());
                }
                // An interrupted run has done so, and must not stop the next one.
                None => absent.push(text),
            }
        }
        let mut digest = None;
        if self.all {
            // All names before the first change, so that a message that fails again is not processed
            // twice.
            names = messages.names().await?;
            let mut all = PlanDigest::default();
            for name in &names {
                all.add(PlanItem::of(&[&name.to_string()]));
            }
            digest = Some(all.finish());
        }
        let plan = Plan {
            action: match action {
                Action::Redrive => "redrive",
                Action::Discard => "discard",
            },
            count: names.len() as u64,
            digest,
            messages: Member(F::MEMBER, rows),
            absent: Absent {
                names: absent,
                state: F::ABSENT,
            },
            now: messages.now(),
        };
        Ok((plan, names))
    }
}

impl Absent {
    fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    fn exit(&self) -> Exit {
        if self.is_empty() {
            Exit::Ok
        } else {
            Exit::Finding
        }
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
        if !rows.is_empty() {
            f.write_str(&F::table(rows, self.now))?;
        }
        self.absent.fmt(f)
    }
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state;
        match &*self.names {
            [] => Ok(()),
            [name] => write!(
                f,
                "{state}: `{name}`; it was redriven or discarded before, or the name is wrong"
            ),
            names => write!(
                f,
                "{state}: `{}`; they were redriven or discarded before, or the names are wrong",
                names.join("`, `")
            ),
        }
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
        if !self.absent.is_empty() {
            write!(f, "\n{}", self.absent)?;
        }
        Ok(())
    }
}
