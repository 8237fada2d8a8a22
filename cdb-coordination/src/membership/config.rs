//! The configuration of membership.

use std::time::Duration;

use crate::timing::{HEARTBEAT, SHORTEST_HEARTBEAT, YEAR};

/// The group that a process joins, its name, and its heartbeat interval.
///
/// ```
/// use std::time::Duration;
/// use cdb_coordination::membership::MembershipConfig;
///
/// let config = MembershipConfig { heartbeat: Duration::from_secs(1), ..MembershipConfig::named("worker-1") };
/// assert_eq!(config.group, "cdb:members");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipConfig {
    /// The group: a partition of the container whose members share the slots. `cdb:members` by
    /// default.
    pub group: String,
    /// The name of this process in the group. A process that keeps its name over restarts keeps its
    /// slots. Of two running processes with one name, the later one is the member. The default is
    /// unique: machine name, process id and a random number.
    pub member: String,
    /// The interval between heartbeats: 3 s by default, at least 100 ms. A heartbeat is one request.
    /// A killed member is removed after two to three intervals.
    pub heartbeat: Duration,
}

impl Default for MembershipConfig {
    fn default() -> Self {
        let random = uuid::Uuid::new_v4().simple().to_string();
        Self {
            group: "cdb:members".to_owned(),
            member: format!("{}-{}-{}", machine(), std::process::id(), &random[..8]),
            heartbeat: HEARTBEAT,
        }
    }
}

impl MembershipConfig {
    /// The default configuration with another member name.
    pub fn named(member: impl Into<String>) -> Self {
        Self {
            member: member.into(),
            ..Self::default()
        }
    }

    pub(super) fn period(&self) -> Duration {
        self.heartbeat.clamp(SHORTEST_HEARTBEAT, YEAR)
    }
}

/// The machine's name, for people who read the roster. The random part of the default name makes it
/// unique.
fn machine() -> String {
    let from_variable = |name| std::env::var(name).ok();
    from_variable("HOSTNAME")
        .or_else(|| from_variable("COMPUTERNAME"))
        .or_else(|| std::fs::read_to_string("/etc/hostname").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "machine".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_name_is_unique() {
        let (one, other) = (MembershipConfig::default(), MembershipConfig::default());
        assert_ne!(one.member, other.member);
        assert_eq!(one.group, other.group);
    }
}
