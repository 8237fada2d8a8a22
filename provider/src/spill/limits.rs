//! How large things may be: a turn, a single text, a history. What exceeds a limit is refused for good, in words that
//! name size, limit and setting, and duroxide fails the orchestration with them.

use duroxide::providers::ProviderError;

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
    pub(crate) fn check_value(
        &self,
        operation: &'static str,
        what: &str,
        bytes: usize,
    ) -> Result<(), ProviderError> {
        check(operation, what, bytes, (self.value, "max_value_bytes"))
    }

    /// All that one turn leaves.
    ///
    /// # Errors
    /// When it is larger than that.
    pub(crate) fn check_turn(
        &self,
        operation: &'static str,
        bytes: usize,
    ) -> Result<(), ProviderError> {
        check(operation, "the turn", bytes, (self.turn, "max_turn_bytes"))
    }

    /// The history of an execution.
    ///
    /// # Errors
    /// When it is larger than that.
    pub(crate) fn check_history(
        &self,
        operation: &'static str,
        bytes: usize,
    ) -> Result<(), ProviderError> {
        let limit = (self.history, "max_history_bytes");
        check(operation, "the history", bytes, limit)
    }
}

fn check(
    operation: &'static str,
    what: &str,
    bytes: usize,
    (limit, setting): (u64, &str),
) -> Result<(), ProviderError> {
    if bytes as u64 <= limit {
        return Ok(());
    }
    Err(ProviderError::permanent(
        operation,
        format!(
            "{what} takes {bytes} bytes, the limit is {limit} (`{setting}`); \
             store what is large elsewhere and pass on where it is"
        ),
    ))
}
