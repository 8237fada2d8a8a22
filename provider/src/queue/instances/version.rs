//! The duroxide version that an execution is pinned to, and the dispatchers that support it.

use duroxide::providers::DispatcherCapabilityFilter;

/// Returns whether a dispatcher supports executions pinned to this version. Of several ranges
/// duroxide uses the first (its suite: `fetch_single_range_only_uses_first_range`).
pub(crate) fn supports(filter: Option<&DispatcherCapabilityFilter>, pinned: u64) -> bool {
    filter.is_none_or(|filter| {
        let first = filter.supported_duroxide_versions.first();
        first.is_some_and(|range| range.contains(&unpack_version(pinned)))
    })
}

/// Returns the stored form of a version: one number, ordered like the versions while their parts
/// stay below 1000.
pub(crate) fn pack_version(version: &semver::Version) -> u64 {
    version.major * 1_000_000 + version.minor * 1_000 + version.patch
}

fn unpack_version(packed: u64) -> semver::Version {
    semver::Version::new(packed / 1_000_000, packed / 1_000 % 1_000, packed % 1_000)
}

/// Returns whether a dispatcher supports no version of duroxide.
pub(super) fn runs_nothing(filter: Option<&DispatcherCapabilityFilter>) -> bool {
    filter.is_some_and(|filter| filter.supported_duroxide_versions.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_survive_packing() {
        let version = semver::Version::new(0, 1, 32);
        assert_eq!(pack_version(&version), 1_032);
        assert_eq!(unpack_version(1_032), version);
    }
}
