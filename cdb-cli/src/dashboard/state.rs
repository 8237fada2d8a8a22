//! The data that all requests of the dashboard share.

use super::action_token::Token;
use super::latency::LatencyLog;
use crate::dead_letters::DeadLetterSources;
use crate::orchestrations::Orchestrations;

/// The data that all requests share.
pub(crate) struct Dashboard {
    pub(super) orchestrations: Orchestrations,
    pub(super) dead_letters: DeadLetterSources,
    /// The model's name, for the page's head.
    pub(super) model: &'static str,
    /// The token that changes must bring; without it nothing can be changed.
    pub(super) token: Option<Token>,
    pub(super) latency: LatencyLog,
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
            latency: LatencyLog::default(),
        }
    }
}
