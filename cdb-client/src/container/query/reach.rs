//! The partitions that a query may read, and its targets in them.

use std::sync::Arc;

use cdb_model::PartitionKey;

use crate::container::query::source::Target;
use crate::partitions::{EpkPart, PhysicalPartitionId, RangeMap};

/// The partitions that a query may read.
#[derive(Debug)]
pub(super) enum Reach {
    /// One logical partition.
    Partition(PartitionKey),
    /// A part of the hash space, in these physical partitions.
    Part(EpkPart, Arc<RangeMap>),
}

impl Reach {
    /// Returns the physical partitions; none for a logical partition.
    pub(super) fn ranges(&self) -> Vec<PhysicalPartitionId> {
        let Self::Part(part, map) = self else {
            return Vec::new();
        };
        let reached = map
            .iter()
            .filter(|range| range.part.intersection(part).is_some());
        reached.map(|range| range.id.clone()).collect()
    }

    /// Returns the target of a physical partition, or of the logical one; `None` for the other kind.
    pub(super) fn target(&self, range: Option<PhysicalPartitionId>) -> Option<Target> {
        match (self, range) {
            (Self::Partition(key), None) => Some(Target::Partition(key.clone())),
            (Self::Part(part, map), Some(range)) => {
                let bounds = map.bounds(&range, part);
                Some(Target::Range(range, bounds))
            }
            (Self::Partition(_), Some(_)) | (Self::Part(..), None) => None,
        }
    }

    /// Returns the physical partitions that the targets were chosen from.
    pub(super) fn into_map(self) -> Option<Arc<RangeMap>> {
        match self {
            Self::Partition(_) => None,
            Self::Part(_, map) => Some(map),
        }
    }
}
