//! How large things may be: a turn, a single text, a history. What exceeds a limit is refused for good, in words that
//! name size, limit and setting, and duroxide fails the orchestration with them.

use crate::error::{Error, Result};

/// The limits of this provider, in bytes of JSON text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) value: u64,
    pub(crate) turn: u64,
    pub(crate) history: u64,
}

impl Limits {
    /// A single text: an event, a message, an output.
    ///
    /// # Errors
    /// When it is larger than that.
    pub(crate) fn check_value(&self, what: &str, bytes: usize) -> Result<()> {
        check(what, bytes, (self.value, "max_value_bytes"))
    }

    /// All that one turn leaves.
    ///
    /// # Errors
    /// When it is larger than that.
    pub(crate) fn check_turn(&self, bytes: usize) -> Result<()> {
        check("the turn", bytes, (self.turn, "max_turn_bytes"))
    }

    /// The history of an execution.
    ///
    /// # Errors
    /// When it is larger than that.
    pub(crate) fn check_history(&self, bytes: usize) -> Result<()> {
        let limit = (self.history, "max_history_bytes");
        check("the history", bytes, limit)
    }
}

fn check(what: &str, bytes: usize, (limit, setting): (u64, &str)) -> Result<()> {
    if bytes as u64 <= limit {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "{what} takes {bytes} bytes, the limit is {limit} (`{setting}`); \
        store what is large elsewhere and pass on where it is"
    )))
}
