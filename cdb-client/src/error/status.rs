//! The HTTP status together with the service's sub-status.
//!
//! The meaning of a sub-status depends on the status (1002 differs under 404 and 410), so code
//! always compares both.

use std::fmt;

/// The HTTP status and `x-ms-substatus` of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResponseStatus {
    /// The HTTP status.
    pub code: u16,
    /// The sub-status, or 0.
    pub sub: u32,
}

impl ResponseStatus {
    /// The item does not exist.
    pub const ITEM_NOT_FOUND: Self = Self::new(404, 0);
    /// The replica is behind this session. Says nothing about the item.
    pub const SESSION_NOT_AVAILABLE: Self = Self::new(404, 1002);
    /// The container or the database does not exist.
    pub const OWNER_NOT_FOUND: Self = Self::new(404, 1003);
    /// The region no longer accepts writes: the write region of the account has moved.
    pub const WRITE_FORBIDDEN: Self = Self::new(403, 3);
    /// The region does not serve this account, or no longer does.
    pub const ACCOUNT_NOT_FOUND: Self = Self::new(403, 1008);
    /// The logical partition has reached its storage limit of 20 GB.
    pub const PARTITION_FULL: Self = Self::new(403, 1014);
    /// The container is still being created.
    pub const CONTAINER_IN_CREATION: Self = Self::new(404, 1013);
    /// The physical partition was split or merged and no longer exists.
    pub const RANGE_GONE: Self = Self::new(410, 1002);
    /// The physical partition completes a split or merge.
    pub const COMPLETING_SPLIT: Self = Self::new(410, 1007);
    /// The physical partition completes a move to other machines.
    pub const COMPLETING_MIGRATION: Self = Self::new(410, 1008);
    /// The request, or the document that it would store, is too large.
    pub const TOO_LARGE: Self = Self::new(413, 0);
    /// The answer to a bulk would be too long, and lacks the result of this operation.
    pub const BULK_ANSWER_TOO_LONG: Self = Self::new(413, 3402);
    /// Another item of the logical partition has the same unique key.
    pub const UNIQUE_KEY_TAKEN: Self = Self::new(409, 3301);
    /// Data-plane roles do not allow the operation, such as creating a container; account keys and
    /// the control plane do.
    pub const NOT_FOR_DATA_ROLES: Self = Self::new(403, 5300);
    /// The Entra ID identity has no role that allows reading metadata.
    pub const NO_ROLE_FOR_METADATA: Self = Self::new(403, 5301);
    /// The Entra ID identity has no role that allows this data operation. A new or changed role
    /// assignment takes minutes to reach all nodes of the service.
    pub const NO_ROLE_FOR_DATA: Self = Self::new(403, 5302);

    /// Creates a status from its two numbers.
    pub const fn new(code: u16, sub: u32) -> Self {
        Self { code, sub }
    }

    /// Whether the physical partition is changing and answers again soon, perhaps under other ids.
    pub(crate) fn is_moving(self) -> bool {
        matches!(self, Self::COMPLETING_SPLIT | Self::COMPLETING_MIGRATION)
    }

    /// Whether the request succeeded, or (304) there is nothing new.
    pub const fn is_success(self) -> bool {
        matches!(self.code, 200..=299 | 304)
    }

    /// Whether the session token of an answer with this status is kept: of successes, and of
    /// refusals because of the current state, so that a writer that lost a race reads at least the
    /// write that won.
    pub(crate) const fn carries_session(self) -> bool {
        match self.code {
            409 | 412 => true,
            404 => self.sub != 1002,
            _ => self.is_success(),
        }
    }
}

impl fmt::Display for ResponseStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sub == 0 {
            write!(f, "{}", self.code)
        } else {
            write!(f, "{}/{}", self.code, self.sub)
        }
    }
}
