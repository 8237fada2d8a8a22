//! Virtual partitions: which part of the work a stream belongs to.
//!
//! A stream stays in its partition for ever, so the hash is a fixed one, and the number of partitions is written into the
//! container by the first coordinator.

use std::num::NonZeroU16;

use crate::rendezvous::name_hash;

/// The most there can be: instances divide the same 256 slots.
const MOST: u16 = 256;

/// How many virtual partitions there are: 1 to 256, 32 by default.
///
/// More than that spread over more instances and need more requests per flush. A container keeps its number.
///
/// ```
/// use cdb_coordination::Partitions;
///
/// let sixteen = Partitions::new(16).expect("between 1 and the most there may be");
/// assert!(sixteen.of_stream("order-7") < sixteen.count()); // the same on every machine, for ever
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
    /// So many, or `None` outside of 1 to 256.
    pub fn new(count: u16) -> Option<Self> {
        NonZeroU16::new(count)
            .filter(|count| count.get() <= MOST)
            .map(Self)
    }

    /// How many there are.
    pub fn count(self) -> u16 {
        self.0.get()
    }

    /// The partition of a stream, counted from zero; the same on every platform, compiler and release.
    pub fn of_stream(self, stream: &str) -> u16 {
        let hash = name_hash(stream);
        let folded = hash ^ (hash >> 32);
        let index = folded % u64::from(self.count());
        u16::try_from(index).unwrap_or_default()
    }

    /// The value of the partition key of a partition.
    pub fn name(self, index: u16) -> String {
        format!("work-{index:03}")
    }

    /// The partition with this name.
    pub(super) fn index_of(self, name: &str) -> Option<u16> {
        let index = name.strip_prefix("work-")?.parse().ok()?;
        (index < self.count()).then_some(index)
    }

    /// All of them.
    pub(super) fn all(self) -> impl Iterator<Item = u16> {
        0..self.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_in_the_same_partition_for_ever() {
        let partitions = Partitions::default();
        let of = |stream| partitions.of_stream(stream);
        assert_eq!([of(""), of("a"), of("order-7"), of("Köln")], STORED);
    }

    /// Stored streams lie there; another number means that they are lost.
    const STORED: [u16; 4] = [1, 0, 4, 6];

    #[test]
    fn streams_spread_over_all_partitions() {
        let partitions = Partitions::new(256).unwrap();
        let mut counts = vec![0_u32; 256];
        for n in 0..25_600 {
            counts[usize::from(partitions.of_stream(&format!("stream-{n}")))] += 1;
        }
        // 100 each, and five standard deviations.
        assert!(
            counts.iter().all(|count| (50..=150).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn names_read_back_and_foreign_ones_do_not() {
        let partitions = Partitions::new(12).unwrap();
        for index in partitions.all() {
            assert_eq!(partitions.index_of(&partitions.name(index)), Some(index));
        }
        for foreign in ["work-012", "work-", "order-1", "work"] {
            assert_eq!(partitions.index_of(foreign), None);
        }
        assert_eq!((Partitions::new(0), Partitions::new(257)), (None, None));
    }
}
