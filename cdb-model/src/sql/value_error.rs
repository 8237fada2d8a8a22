//! Values that cannot be sent.

/// A value of a filter, patch or search that cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value for `{path}` is invalid: {reason}")]
#[non_exhaustive]
pub struct ValueError {
    /// The stored path.
    pub path: &'static str,
    /// What is wrong.
    pub reason: String,
}

impl ValueError {
    pub(crate) fn new(path: &'static str, error: &serde_json::Error) -> Self {
        Self {
            path,
            reason: format!("it cannot be serialized as JSON: {error}"),
        }
    }
}
