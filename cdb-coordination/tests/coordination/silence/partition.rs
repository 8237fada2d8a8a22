//! The requests that a silent physical partition does not answer, or a slow one answers late.

use std::collections::BTreeSet;

use cdb_client::transport::HttpRequest;

/// A physical partition that answers no request. The default concerns no request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silence {
    range: String,
    /// The keys of the logical partitions in it, as headers.
    keys: BTreeSet<String>,
    /// The only requests concerned; all if `None`.
    only: Option<fn(&HttpRequest) -> bool>,
}

/// Whether a request reads a page of a query.
pub(crate) fn is_query(request: &HttpRequest) -> bool {
    request.headers.contains_key("x-ms-documentdb-isquery")
}

impl Silence {
    /// A physical partition with these logical partitions.
    pub(crate) fn of(range: &str, partitions: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let keys = partitions.into_iter();
        Self {
            range: range.to_owned(),
            keys: keys.map(|key| format!("[{:?}]", key.as_ref())).collect(),
            only: None,
        }
    }

    /// Concerns only requests of this kind.
    pub(crate) fn only(self, kind: fn(&HttpRequest) -> bool) -> Self {
        let only = Some(kind);
        Self { only, ..self }
    }

    /// Whether a request needs the partition: it names the partition or a key in it, or the gateway
    /// has to query all partitions.
    pub(crate) fn concerns(&self, request: &HttpRequest) -> bool {
        let header = |name| {
            let value = request.headers.get(name)?;
            value.to_str().ok()
        };
        if self.only.is_some_and(|is_kind| !is_kind(request)) {
            return false;
        }
        if let Some(range) = header("x-ms-documentdb-partitionkeyrangeid") {
            return range == self.range;
        }
        match header("x-ms-documentdb-partitionkey") {
            Some(key) => self.keys.contains(key),
            None if self.keys.is_empty() => false,
            None => header("x-ms-documentdb-query-enablecrosspartition").is_some(),
        }
    }
}
