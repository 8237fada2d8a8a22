//! Whether a policy indexes a path.
//!
//! The rule (indexing policy overview, "include/exclude precedence"): the most precise matching
//! path decides, and `/?` is more precise than `/*` at the same depth. `id` and `_ts` are always
//! indexed unless the indexing mode is `none`.

use super::json::{IndexingMode, IndexingPolicy};

impl IndexingPolicy {
    /// Whether values at `path` are indexed. `path` is in the policy's grammar without its ending:
    /// `/address/city`, and `/tags/[]` for the elements of an array.
    pub fn covers(&self, path: &str) -> bool {
        if self.indexing_mode == IndexingMode::None {
            return false;
        }
        if path == "/id" || path == "/_ts" {
            return true;
        }
        let best = |paths: &mut dyn Iterator<Item = &str>| {
            paths.filter_map(|entry| precision(entry, path)).max()
        };
        let included = best(&mut self.included_paths.iter().map(|entry| &*entry.path));
        let excluded = best(&mut self.excluded_paths.iter().map(|entry| &*entry.path));
        included.is_some() && included >= excluded
    }
}

/// Returns the precision of a matching entry: its depth, and whether it matches only this path.
/// `None` if it does not match.
fn precision(entry: &str, path: &str) -> Option<(usize, bool)> {
    if let Some(exact) = entry.strip_suffix("/?") {
        return (exact == path).then(|| (depth(exact), true));
    }
    let prefix = entry.strip_suffix("/*")?;
    let rest = path.strip_prefix(prefix)?;
    (rest.is_empty() || rest.starts_with('/')).then(|| (depth(prefix), false))
}

fn depth(path: &str) -> usize {
    path.matches('/').count()
}

#[cfg(test)]
mod tests {
    use super::super::json::{ExcludedPath, IncludedPath};
    use super::*;

    fn policy(included: &[&str], excluded: &[&str]) -> IndexingPolicy {
        let included = included
            .iter()
            .map(|&path| IncludedPath { path: path.into() });
        let excluded = excluded
            .iter()
            .map(|&path| ExcludedPath { path: path.into() });
        IndexingPolicy {
            indexing_mode: IndexingMode::Consistent,
            automatic: true,
            included_paths: included.collect(),
            excluded_paths: excluded.collect(),
            composite_indexes: Vec::new(),
            vector_indexes: Vec::new(),
            full_text_indexes: Vec::new(),
        }
    }

    #[test]
    fn the_most_precise_path_decides() {
        let all = policy(&["/*"], &["/\"_etag\"/?", "/blob/*"]);
        assert!(all.covers("/status") && all.covers("/address/city"));
        assert!(!all.covers("/blob") && !all.covers("/blob/inner"));
        assert!(
            all.covers("/blobs"),
            "a prefix of a name is not a prefix of a path"
        );
        let named = policy(&["/status/?", "/blob/kept/?"], &["/*", "/blob/*"]);
        assert!(named.covers("/status") && named.covers("/blob/kept"));
        assert!(!named.covers("/status/inner") && !named.covers("/other"));
        assert!(named.covers("/id") && named.covers("/_ts"));
    }

    #[test]
    fn a_container_without_indexes_covers_nothing() {
        let mut none = policy(&["/*"], &[]);
        none.indexing_mode = IndexingMode::None;
        assert!(!none.covers("/id"));
    }
}
