//! The stages of a message as bits, so that a failed message continues where it stopped.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use serde::{Deserialize, Serialize};

/// A set of stages.
///
/// ```
/// use cdb_work::WorkStatus;
///
/// const INVOICED: WorkStatus = WorkStatus::user::<0>();
/// let passed = WorkStatus::STORED | WorkStatus::RECEIVER_DONE;
/// assert!(passed.contains(WorkStatus::RECEIVER_DONE));
/// assert!(!passed.contains(WorkStatus::RECEIVER_DONE | INVOICED));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkStatus(u32);

/// The first bit of the user's stages.
const FIRST_USER_BIT: u8 = 16;

impl WorkStatus {
    /// No stage.
    pub const NONE: Self = Self(0);
    /// The message is stored. Every stored message has this stage.
    pub const STORED: Self = Self(1);
    /// The event of the message is in the event store, see
    /// [`NewWork::as_event`](crate::NewWork::as_event).
    pub const EVENT_STORED: Self = Self(1 << 1);
    /// The message is published.
    pub const PUBLISHED: Self = Self(1 << 2);
    /// The receiver has handled the message.
    pub const RECEIVER_DONE: Self = Self(1 << 3);
    /// Projections of the message are up to date.
    pub const PROJECTION_DONE: Self = Self(1 << 4);
    /// The message failed too often and was skipped, by policy or by an operator.
    pub const SKIPPED: Self = Self(1 << 5);

    /// A stage of the user. There are sixteen; another number does not compile.
    pub const fn user<const N: u8>() -> Self {
        const { assert!(N < 16, "there are 16 stages for users, 0 to 15") };
        Self(1 << (FIRST_USER_BIT + N))
    }

    /// Whether every stage of `other` is in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The stages of this set that `other` lacks.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for WorkStatus {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for WorkStatus {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for WorkStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(&str, WorkStatus); 6] = [
            ("stored", WorkStatus::STORED),
            ("event_stored", WorkStatus::EVENT_STORED),
            ("published", WorkStatus::PUBLISHED),
            ("receiver_done", WorkStatus::RECEIVER_DONE),
            ("projection_done", WorkStatus::PROJECTION_DONE),
            ("skipped", WorkStatus::SKIPPED),
        ];
        let mut set = f.debug_set();
        set.entries(
            NAMES
                .iter()
                .filter(|(_, stage)| self.contains(*stage))
                .map(|(name, _)| name),
        );
        set.entries((0..16).filter(|n| self.0 & (1 << (FIRST_USER_BIT + n)) != 0));
        set.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_stages_are_those_that_were_not_passed() {
        let needs = WorkStatus::PUBLISHED | WorkStatus::user::<15>();
        let passed = WorkStatus::STORED | WorkStatus::PUBLISHED;
        assert_eq!(needs.without(passed), WorkStatus::user::<15>());
        assert!(!passed.contains(needs));
        assert!((passed | needs).contains(needs));
        assert!(needs.without(needs).is_empty());
    }

    #[test]
    fn stages_are_stored_as_one_number_and_print_by_name() {
        let status = WorkStatus::STORED | WorkStatus::user::<2>();
        assert_eq!(serde_json::to_string(&status).unwrap(), "262145");
        assert_eq!(format!("{status:?}"), r#"{"stored", 2}"#);
    }
}
