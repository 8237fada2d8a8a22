//! Virtual partitions: to which part of the work a stream belongs.
//!
//! A stream never changes its partition. So the hash is fixed, and the first coordinator stores the
//! number of partitions in the container.

use std::num::NonZeroU16;

use cdb_coordination::membership::name_hash;

/// The maximum. A query names up to this number of partitions, and the service allows 6,000 values
/// in `IN`.
const MOST: u16 = 4096;

/// The number of virtual partitions: 1 to 4,096, 32 by default.
///
/// More partitions spread over more processes and need more requests: per flush, and to renew
/// leases. The number of a container cannot change.
///
/// ```
/// use cdb_work::Partitions;
///
/// let sixteen = Partitions::new(16).expect("between 1 and the most there may be");
/// assert!(sixteen.of_stream("order-7") < sixteen.count()); // the same on every machine and in every release
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partitions(NonZeroU16);

impl Default for Partitions {
    fn default() -> Self {
        const DEFAULT: NonZeroU16 = NonZeroU16::new(32).expect("32 is not zero");
        Self(DEFAULT)
    }
}

impl Partitions {
    /// Returns `None` outside of 1 to 4,096.
    pub fn new(count: u16) -> Option<Self> {
        NonZeroU16::new(count)
            .filter(|count| count.get() <= MOST)
            .map(Self)
    }

    /// The number of partitions.
    pub fn count(self) -> u16 {
        self.0.get()
    }

    /// The partition of a stream, from zero; the same on every platform and in every release.
    pub fn of_stream(self, stream: &str) -> u16 {
        let hash = name_hash(stream);
        let folded = hash ^ (hash >> 32);
        let index = folded % u64::from(self.count());
        u16::try_from(index).unwrap_or_default()
    }

    /// The partition key value of a partition.
    pub fn name(self, index: u16) -> String {
        format!("work-{index:03}")
    }

    /// The partition with this name.
    pub(crate) fn index_of(self, name: &str) -> Option<u16> {
        let index = name.strip_prefix("work-")?.parse().ok()?;
        (index < self.count()).then_some(index)
    }

    /// All partitions.
    pub(crate) fn all(self) -> impl Iterator<Item = u16> {
        0..self.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_never_changes_its_partition() {
        let partitions = Partitions::default();
        let of = |stream| partitions.of_stream(stream);
        assert_eq!([of(""), of("a"), of("order-7"), of("Köln")], STORED);
    }

    /// Stored streams have these partitions. Another number would lose them.
    const STORED: [u16; 4] = [1, 0, 4, 6];

    #[test]
    fn streams_spread_over_all_partitions() {
        let partitions = Partitions::new(256).unwrap();
        let mut counts = vec![0_u32; 256];
        for n in 0..25_600 {
            counts[usize::from(partitions.of_stream(&format!("stream-{n}")))] += 1;
        }
        // A mean of 100 each, plus and minus five standard deviations.
        assert!(
            counts.iter().all(|count| (50..=150).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn a_name_parses_to_its_partition_and_other_names_do_not() {
        let partitions = Partitions::new(1200).unwrap();
        for index in partitions.all() {
            assert_eq!(partitions.index_of(&partitions.name(index)), Some(index));
        }
        for foreign in ["work-1200", "work-", "order-1", "work"] {
            assert_eq!(partitions.index_of(foreign), None);
        }
        assert_eq!((Partitions::new(0), Partitions::new(4097)), (None, None));
    }
}
