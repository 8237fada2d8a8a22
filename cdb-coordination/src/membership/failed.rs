//! The report of a failed member.

/// A member that this process has removed from the roster, because its heartbeats stopped.
///
/// The process may still run, for example after a pause. It then rejoins, and its former work must
/// be fenced.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedMember {
    /// The member's name.
    pub name: String,
    /// The [`incarnation`](super::Membership::incarnation) of its process.
    pub incarnation: String,
}
