//! The tests that fail on purpose, each with its reason.

/// A test of a suite that fails.
pub struct Difference {
    pub suite: &'static str,
    pub test: &'static str,
    /// Why it is right to fail.
    #[expect(dead_code, reason = "for the reader of this file")]
    pub reason: &'static str,
    /// Whether it also passes, depending on the time that the machine takes.
    pub sometimes: bool,
}

pub const DIFFERENCES: &[Difference] = &[];
