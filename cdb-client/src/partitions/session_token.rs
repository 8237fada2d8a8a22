//! The session tokens of one container: the newest per physical partition, so that a process reads
//! its own writes.
//!
//! A token is `{range}:{version}#{global LSN}#{region}={local LSN}…`, or `{range}:{LSN}`; commas
//! separate several tokens. Per range, this module keeps the newer of two whole tokens.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// The most bytes of tokens that a request carries while the range of its partition is unknown. The
/// gateway refuses headers of 16 KB in all (azure-cosmos-dotnet-v3#2146: a token of 15,837 bytes), and
/// the token of an identity or a continuation needs most of them.
const MOST_BYTES: usize = 4096;

/// Which tokens a request carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionScope {
    /// None: for writes, which the primary replica executes, and for metadata.
    None,
    /// The tokens of all ranges: for a request whose range is unknown.
    Container,
    /// The token of one range.
    Range(String),
}

/// The newest tokens by range id.
#[derive(Debug, Default)]
pub(crate) struct SessionTokens {
    by_range: RwLock<BTreeMap<String, String>>,
}

impl SessionTokens {
    /// Returns the value of the header for a request of this scope.
    pub(crate) fn header(&self, scope: &SessionScope) -> Option<String> {
        let tokens = self.by_range.read().unwrap_or_else(PoisonError::into_inner);
        let joined = match scope {
            SessionScope::None => return None,
            SessionScope::Container => tokens
                .iter()
                .map(|(range, token)| format!("{range}:{token}"))
                .collect::<Vec<_>>()
                .join(","),
            SessionScope::Range(range) => format!("{range}:{}", tokens.get(range)?),
        };
        (!joined.is_empty()).then_some(joined)
    }

    /// Whether the tokens of all ranges are too many for a request.
    pub(crate) fn are_too_many(&self) -> bool {
        let all = self.header(&SessionScope::Container);
        all.is_some_and(|tokens| tokens.len() > MOST_BYTES)
    }

    /// Stores the tokens of an answer that are newer than the known ones.
    pub(crate) fn update(&self, header: &str) {
        let mut tokens = self
            .by_range
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        for part in header.split(',') {
            let Some((range, token)) = part.trim().split_once(':') else {
                continue;
            };
            match tokens.get_mut(range) {
                Some(known) if progress(token) < progress(known) => {}
                Some(known) => token.clone_into(known),
                None => {
                    tokens.insert(range.to_owned(), token.to_owned());
                }
            }
        }
    }

    /// Forgets all tokens. The service cannot satisfy them after a container was deleted and
    /// re-created.
    pub(crate) fn clear(&self) {
        self.by_range
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Whether all tokens belong to known ranges. A token of an unknown range means a split or
    /// merge.
    pub(crate) fn all_of(&self, is_known: impl Fn(&str) -> bool) -> bool {
        let tokens = self.by_range.read().unwrap_or_else(PoisonError::into_inner);
        tokens.keys().all(|range| is_known(range))
    }

    /// Applies a split or merge: a new range inherits the newest token of its parents. The tokens
    /// of the parents are forgotten, because the service no longer knows the parents.
    pub(crate) fn follow_ranges<'a>(
        &self,
        ranges: impl Iterator<Item = (&'a str, &'a [String])> + Clone,
    ) {
        let mut tokens = self
            .by_range
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        for (range, parents) in ranges.clone() {
            let newest = std::iter::once(range)
                .chain(parents.iter().map(String::as_str))
                .filter_map(|id| tokens.get(id))
                .max_by_key(|token| progress(token))
                .cloned();
            if let Some(token) = newest {
                tokens.insert(range.to_owned(), token);
            }
        }
        for parent in ranges.flat_map(|(_, parents)| parents) {
            tokens.remove(parent);
        }
    }
}

/// Returns the order of tokens of one range: version, then global LSN. An unknown form is the
/// lowest.
fn progress(token: &str) -> (i64, i64) {
    let mut parts = token
        .split('#')
        .map(|part| part.parse::<i64>().unwrap_or(-1));
    match (parts.next(), parts.next()) {
        (Some(version), Some(lsn)) => (version, lsn),
        (Some(lsn), None) => (0, lsn),
        _ => (-1, -1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(tokens: &SessionTokens) -> String {
        tokens.header(&SessionScope::Container).unwrap_or_default()
    }

    #[test]
    fn the_newest_token_of_each_range_is_sent() {
        let tokens = SessionTokens::default();
        tokens.update("0:-1#12#3=5");
        tokens.update("1:-1#7");
        tokens.update("0:-1#11#3=4");
        assert_eq!(all(&tokens), "0:-1#12#3=5,1:-1#7");
        assert_eq!(
            tokens
                .header(&SessionScope::Range("1".to_owned()))
                .as_deref(),
            Some("1:-1#7")
        );
        assert_eq!(tokens.header(&SessionScope::Range("9".to_owned())), None);
        assert_eq!(tokens.header(&SessionScope::None), None);
    }

    #[test]
    fn a_higher_version_wins_over_a_higher_lsn() {
        let tokens = SessionTokens::default();
        tokens.update("0:2#5,1:9");
        tokens.update("0:3#1,1:10");
        assert_eq!(all(&tokens), "0:3#1,1:10");
    }

    #[test]
    fn the_children_of_a_split_inherit_the_token_of_the_parent() {
        let tokens = SessionTokens::default();
        tokens.update("0:-1#12,3:-1#2");
        let parent = ["0".to_owned()];
        tokens.follow_ranges([("1", &parent[..]), ("2", &parent[..]), ("3", &[])].into_iter());
        assert_eq!(all(&tokens), "1:-1#12,2:-1#12,3:-1#2");
    }
}
