//! The state that all requests of the dashboard share.

use cdb_provider::observe::PastCounts;

use super::token::Token;
use crate::container::{Holdings, Orchestrations};
use crate::exit::Failure;
use crate::model::messages::Source;

/// The state that all requests share.
pub(crate) struct Dashboard {
    pub(super) holdings: Holdings,
    /// The token that each request for data must carry.
    pub(super) token: Token,
    /// Whether the page may change something.
    pub(super) allows_actions: bool,
    pub(super) past_counts: PastCounts,
}

impl Dashboard {
    /// # Errors
    /// When the container holds nothing that the page shows.
    pub(crate) fn new(
        holdings: Holdings,
        token: Token,
        allows_actions: bool,
    ) -> Result<Self, Failure> {
        let dashboard = Self {
            holdings,
            token,
            allows_actions,
            past_counts: PastCounts::default(),
        };
        if dashboard.views().is_empty() {
            let what = "orchestrations, messages, ordered work or positions of change feeds";
            return Err(dashboard.holdings.lacks(what));
        }
        Ok(dashboard)
    }

    /// The views of what the container holds, in the order of the page.
    pub(super) fn views(&self) -> Vec<&'static str> {
        let holds = &self.holdings;
        let (runs, messages) = (holds.orchestrations.is_some(), &holds.messages);
        let partitions = messages.of(Source::Partitions).is_some();
        let views = [
            ("overview", runs),
            ("instances", runs),
            ("queues", true),
            ("outbox", runs || partitions),
            ("inbox", partitions),
            ("work", messages.of(Source::Work).is_some()),
            ("change-feed", holds.feeds.is_some()),
            ("deadletters", runs || partitions),
        ];
        let held = views[1..]
            .iter()
            .any(|(name, held)| *held && *name != "queues");
        let views = views.into_iter().filter(|(_, is_held)| *is_held && held);
        views.map(|(name, _)| name).collect()
    }

    /// # Errors
    /// When the container holds no orchestrations.
    pub(super) fn orchestrations(&self) -> Result<&Orchestrations, Failure> {
        let found = self.holdings.orchestrations.as_ref();
        found.ok_or_else(|| self.holdings.lacks("orchestrations"))
    }
}
