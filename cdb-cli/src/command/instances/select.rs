//! `cdb instances list`: the filters of the list.

use std::time::Duration;

use cdb_client::Continuation;
use cdb_provider::documents::Status;
use clap::{Args, ValueEnum};

use crate::exit::{Exit, Failure};
use crate::orchestrations::Orchestrations;
use crate::output::Console;
use crate::time::parse_span;
use crate::view::instances::{ListFilter, list};

#[derive(Debug, Args)]
pub(super) struct List {
    /// Only instances in this state; can be repeated
    #[arg(long, value_enum)]
    status: Vec<State>,
    /// Only sub-orchestrations of this instance
    #[arg(long, value_name = "INSTANCE")]
    parent: Option<String>,
    /// Only instances older than this: 90s, 15m, 24h, 7d
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    older_than: Option<Duration>,
    /// Only instances newer than this
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    newer_than: Option<Duration>,
    /// Only instances with this text in the id or the orchestration's name. No index serves this
    /// filter: the command reads all instances that pass the other filters
    #[arg(long = "match", value_name = "TEXT")]
    text: Option<String>,
    /// Maximum number of instances
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Start of the page, as the previous page printed it
    #[arg(long, value_name = "TEXT")]
    from: Option<Continuation>,
}

/// The states of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum State {
    /// Has not ended
    Running,
    /// Ended with a result
    Completed,
    /// Ended with an error
    Failed,
}

impl From<State> for Status {
    fn from(state: State) -> Self {
        match state {
            State::Running => Self::Running,
            State::Completed => Self::Completed,
            State::Failed => Self::Failed,
        }
    }
}

impl List {
    pub(super) async fn run(
        &self,
        orchestrations: &Orchestrations,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        let now = orchestrations.container.now();
        let filter = ListFilter {
            statuses: self
                .status
                .iter()
                .map(|state| Status::from(*state))
                .collect(),
            parent: self.parent.clone(),
            created_before: self.older_than.map(|age| now - age),
            created_after: self.newer_than.map(|age| now - age),
            text: self.text.clone(),
        };
        let rows = usize::from(self.limit);
        let page = list(&orchestrations.container, &filter, rows, self.from.clone()).await?;
        console.answer(&page)?;
        Ok(Exit::Ok)
    }
}
