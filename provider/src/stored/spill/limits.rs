//! The limits of a turn, a single text and a history. A larger one is refused permanently, with an
//! error that names size, limit and setting, and duroxide fails the orchestration with that error.

use crate::error::{Error, Result};

/// The limits of this provider, in bytes of JSON text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) value: u64,
    pub(crate) turn: u64,
    pub(crate) history: u64,
}

impl Limits {
    /// Checks a single text: an event, a message, an output.
    ///
    /// # Errors
    /// Fails when it exceeds `max_value_bytes`.
    pub(crate) fn check_value(&self, what: &str, bytes: usize) -> Result<()> {
        check(what, bytes, self.value, "max_value_bytes")
    }

    /// Checks the size of one turn.
    ///
    /// # Errors
    /// Fails when it exceeds `max_turn_bytes`.
    pub(crate) fn check_turn(&self, bytes: usize) -> Result<()> {
        check("the turn", bytes, self.turn, "max_turn_bytes")
    }

    /// Checks the history of an execution.
    ///
    /// # Errors
    /// Fails when it exceeds `max_history_bytes`.
    pub(crate) fn check_history(&self, bytes: usize) -> Result<()> {
        check("the history", bytes, self.history, "max_history_bytes")
    }
}

fn check(what: &str, bytes: usize, limit: u64, setting: &str) -> Result<()> {
    if bytes as u64 <= limit {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "{what} takes {bytes} bytes, the limit is {limit} (`{setting}`); \
        store large data elsewhere and pass its location"
    )))
}
