//! Policies of a runtime.

/// What happens to an instance whose turn the code of a runtime cannot execute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnNondeterminism {
    /// The turn is not stored. The instance keeps its messages and waits for a runtime with other
    /// code, which each runtime tries at least once a minute. `cdb doctor` names it.
    #[default]
    Hold,
    /// The instance fails, as duroxide decides: at once if its code makes other decisions, and
    /// after `max_attempts` attempts if its orchestration is not registered.
    Fail,
}

/// Which messages a turn of the same process may consume before they are stored. Such a message is never
/// stored: its caller is answered once the turn is committed, which saves a write of about 15 RU.
///
/// If the process dies before that commit, the activity runs again, as it does when the process dies before
/// any result is stored. Without a hand-over this window is one write, about 5 ms; with it, a wait of at most
/// 20 ms for a dispatcher and the code of the turn come before the write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HandOver {
    /// The results of activities and the starts of instances, while a dispatcher is about to take them, nothing
    /// else waits for it or for the worker, and the turns of the orchestration are short.
    #[default]
    WithSpareDispatchers,
    /// The same without the results of the activities of these names: they are stored first, so that the window in
    /// which such an activity may run twice is as short as it can be. Starts are not concerned. A name that no activity
    /// has is not reported.
    Except(Vec<String>),
    /// None.
    Never,
    /// Also when no dispatcher is to spare, for tests.
    #[doc(hidden)]
    Always,
}
