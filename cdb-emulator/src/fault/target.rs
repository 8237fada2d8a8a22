//! What a request reaches, as far as faults distinguish it.

use crate::protocol::{ContainerName, OperationKind};

/// The target of a request.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) kind: OperationKind,
    /// The name of the region that received the request.
    pub(crate) region: String,
    /// The container; `None` for other resources.
    pub(crate) container: Option<ContainerName>,
    /// The ids of the physical partitions that the request reaches; empty if it reaches none, or if
    /// no fault names a partition.
    pub(crate) partitions: Vec<String>,
    /// Whether the request lists the physical partitions of a container.
    pub(crate) lists_ranges: bool,
}

impl Target {
    /// Returns whether the request reaches one of these physical partitions.
    pub(super) fn reaches(&self, partitions: &[String]) -> bool {
        self.partitions.iter().any(|id| partitions.contains(id))
    }
}

#[cfg(test)]
impl From<OperationKind> for Target {
    fn from(kind: OperationKind) -> Self {
        Self {
            kind,
            region: "Local".into(),
            container: None,
            partitions: Vec::new(),
            lists_ranges: false,
        }
    }
}
