//! HTTP status together with the service's sub-status.
//!
//! The same sub-status number means different things under different statuses (1002 under 404 and under 410), so
//! neither is ever looked at alone.

use std::fmt;

/// What the service answered: HTTP status and `x-ms-substatus`.
///
/// ```
/// use cdb_client::Status;
///
/// let status = Status::new(404, 1002);
/// assert_eq!(status, Status::SESSION_NOT_AVAILABLE); // says nothing about the item
/// assert!(!status.is_success());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status {
    /// The HTTP status.
    pub code: u16,
    /// The sub-status, 0 when there was none.
    pub sub: u32,
}

impl Status {
    /// The item does not exist.
    pub const ITEM_NOT_FOUND: Self = Self::new(404, 0);
    /// The replica that was asked is behind this session; not a statement about the item.
    pub const SESSION_NOT_AVAILABLE: Self = Self::new(404, 1002);
    /// The container or the database does not exist.
    pub const OWNER_NOT_FOUND: Self = Self::new(404, 1003);
    /// The container is still being created.
    pub const CONTAINER_IN_CREATION: Self = Self::new(404, 1013);
    /// The physical partition was split or merged away.
    pub const RANGE_GONE: Self = Self::new(410, 1002);
    /// Another item of the logical partition has the same unique key.
    pub const UNIQUE_KEY_TAKEN: Self = Self::new(409, 3301);
    /// An Entra ID identity asks for what only keys and the control plane may do, such as creating a container.
    pub const NOT_FOR_DATA_ROLES: Self = Self::new(403, 5300);
    /// An Entra ID identity has no role that allows reading metadata.
    pub const NO_ROLE_FOR_METADATA: Self = Self::new(403, 5301);

    /// From its two numbers.
    pub const fn new(code: u16, sub: u32) -> Self {
        Self { code, sub }
    }

    /// Whether the service did what was asked, or (304) has nothing new.
    pub const fn is_success(self) -> bool {
        matches!(self.code, 200..=299 | 304)
    }

    /// Whether an answer of this status carries a session token worth keeping: successes, and refusals after looking
    /// at the current state. A losing writer then reads at least what made it lose.
    pub(crate) const fn carries_session(self) -> bool {
        match self.code {
            409 | 412 => true,
            404 => self.sub != 1002,
            _ => self.is_success(),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sub == 0 {
            write!(f, "{}", self.code)
        } else {
            write!(f, "{}/{}", self.code, self.sub)
        }
    }
}
