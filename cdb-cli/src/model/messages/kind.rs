//! The kinds and states of messages, and what is done with dead ones.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

// The variants have no doc comments: they would make the help of each option a page long.
/// The state of a message: retried by the runtimes, or failed for good, until it is redriven or discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "camelCase")]
pub(crate) enum State {
    Dead,
    Retrying,
}

/// What holds a message: orchestration instances, messaging between partitions, or ordered work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Source {
    Instances,
    Partitions,
    Work,
}

/// The step that failed, or that was not made yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Step {
    Delivery,
    Handling,
}

/// The messages of a source that one query lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Dead,
    Retrying(Step),
}

/// The listed messages.
#[derive(Clone, Copy, Debug, Default, Deserialize, Args)]
pub(crate) struct Filter {
    /// Only messages in this state: dead ones wait for an operator, the others are retried
    #[arg(long)]
    pub state: Option<State>,
    /// Only messages between instances, between partitions, or of ordered work
    #[arg(long)]
    pub source: Option<Source>,
    /// Only retried messages that failed in this step.
    #[arg(skip)]
    pub failed: Option<Step>,
}

/// A change of a dead message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Redrive,
    Discard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Outcome {
    Done,
    /// The message is not dead: another process has redriven or discarded it.
    Gone,
}

impl Source {
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Instances => "messages between instances",
            Self::Partitions => "messages between partitions",
            Self::Work => "ordered work",
        }
    }

    /// The end of a noun phrase: `2 messages between partitions`.
    pub(crate) fn place(self) -> &'static str {
        match self {
            Self::Instances => "between instances",
            Self::Partitions => "between partitions",
            Self::Work => "of ordered work",
        }
    }
}

impl Filter {
    pub(super) fn includes(self, list: List) -> bool {
        let (state, is_step) = match list {
            List::Dead => (State::Dead, self.failed.is_none()),
            List::Retrying(step) => (
                State::Retrying,
                self.failed.is_none_or(|failed| failed == step),
            ),
        };
        is_step && self.state.is_none_or(|wanted| wanted == state)
    }
}
