//! The state that all requests of the dashboard share.

use super::action_token::Token;
use crate::dead_letters::DeadLetterSources;
use crate::orchestrations::Orchestrations;
use crate::view::overview::PastCounts;

/// The state that all requests share.
pub(crate) struct Dashboard {
    pub(super) orchestrations: Orchestrations,
    pub(super) dead_letters: DeadLetterSources,
    /// The name of the model.
    pub(super) model: &'static str,
    /// The token that a change must carry. `None` makes the page read-only.
    pub(super) token: Option<Token>,
    pub(super) past_counts: PastCounts,
}

impl Dashboard {
    pub(crate) fn new(
        orchestrations: Orchestrations,
        dead_letters: DeadLetterSources,
        model: &'static str,
        token: Option<Token>,
    ) -> Self {
        Self {
            orchestrations,
            dead_letters,
            model,
            token,
            past_counts: PastCounts::default(),
        }
    }
}
