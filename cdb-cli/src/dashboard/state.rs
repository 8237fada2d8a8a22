//! The data that all requests of the dashboard share.

use super::action_token::Token;
use super::pulse::Pulse;
use crate::dead_letters::DeadLetterOffice;
use crate::orchestrations::Orchestrations;

/// The data that all requests share.
pub(crate) struct Dashboard {
    pub(super) orchestrations: Orchestrations,
    pub(super) office: DeadLetterOffice,
    /// The model's name, for the page's head.
    pub(super) model: &'static str,
    /// The token that changes must bring; without it nothing can be changed.
    pub(super) token: Option<Token>,
    pub(super) pulse: Pulse,
}

impl Dashboard {
    pub(crate) fn new(
        orchestrations: Orchestrations,
        office: DeadLetterOffice,
        model: &'static str,
        token: Option<Token>,
    ) -> Self {
        Self {
            orchestrations,
            office,
            model,
            token,
            pulse: Pulse::default(),
        }
    }
}
