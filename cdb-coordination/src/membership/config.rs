//! What a user can set about membership.

use std::time::Duration;

/// Which members a process belongs to, and as whom.
///
/// ```
/// use std::time::Duration;
/// use cdb_coordination::MembershipConfig;
///
/// let config = MembershipConfig { heartbeat: Duration::from_secs(1), ..MembershipConfig::named("worker-1") };
/// assert_eq!(config.group, "cdb:members");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipConfig {
    /// The group, which is a partition of the container: members of one group share the slots. `cdb:members` by default.
    pub group: String,
    /// Who this process is. A name that stays the same over restarts keeps its slots; of two processes that use one name at
    /// the same time, the one that came later counts. By default the name of the machine, the process id and a random
    /// number, so that nobody shares it.
    pub member: String,
    /// The time between two heartbeats, each of which is one request; 3 s by default, 100 ms at least. A member that was
    /// killed is removed after two to three of them.
    pub heartbeat: Duration,
}

impl Default for MembershipConfig {
    fn default() -> Self {
        let random = uuid::Uuid::new_v4().simple().to_string();
        Self {
            group: "cdb:members".to_owned(),
            member: format!("{}-{}-{}", machine(), std::process::id(), &random[..8]),
            heartbeat: Duration::from_secs(3),
        }
    }
}

impl MembershipConfig {
    /// The default with another name.
    pub fn named(member: impl Into<String>) -> Self {
        Self {
            member: member.into(),
            ..Self::default()
        }
    }

    pub(super) fn period(&self) -> Duration {
        self.heartbeat.max(Duration::from_millis(100))
    }
}

/// The machine's name, for people who look at the roster. The random part of a member's name makes it unique.
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
    fn two_processes_never_have_the_same_name_by_default() {
        let (one, other) = (MembershipConfig::default(), MembershipConfig::default());
        assert_ne!(one.member, other.member);
        assert_eq!(one.group, other.group);
    }
}
