//! Dispatch slots: which share of the instances a runtime looks for.
//!
//! Every instance belongs to one of 256 dispatch slots. Slots only spread load: two runtimes with
//! the same slot race for locks, and one of them loses.

use std::fmt;

use async_trait::async_trait;

use super::rendezvous::slots_of_member;

/// A set of dispatch slots.
///
/// ```
/// use cdb_coordination::membership::SlotSet;
///
/// let members = ["one", "two"];
/// let one = SlotSet::of_member(&members, "one");
/// let two = SlotSet::of_member(&members, "two");
/// assert_eq!(one.len() + two.len(), 256);
/// assert!(one.iter().all(|slot| !two.contains(slot)));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet([u64; 4]);

impl SlotSet {
    /// All 256 slots.
    pub const ALL: Self = Self([u64::MAX; 4]);

    /// No slot.
    pub const NONE: Self = Self([0; 4]);

    /// The slots of `member` when `members` share them; none if `member` is not in `members`.
    pub fn of_member<M: AsRef<str>>(members: &[M], member: &str) -> Self {
        slots_of_member(members, member, 256)
            .filter_map(|slot| u8::try_from(slot).ok())
            .collect()
    }

    /// How many slots are in the set.
    pub fn len(&self) -> u32 {
        self.0.iter().map(|bits| bits.count_ones()).sum()
    }

    /// Whether no slot is in the set.
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// How many slots of this set are not in `other`.
    pub fn missing_in(&self, other: &Self) -> u32 {
        let both = self.0.iter().zip(&other.0);
        both.map(|(own, others)| (own & !others).count_ones()).sum()
    }

    /// Whether every slot is in the set.
    pub fn is_all(&self) -> bool {
        *self == Self::ALL
    }

    /// Whether `slot` is in the set.
    pub fn contains(&self, slot: u8) -> bool {
        self.0[usize::from(slot >> 6)] & (1 << (slot & 63)) != 0
    }

    /// Adds a slot.
    pub fn insert(&mut self, slot: u8) {
        self.0[usize::from(slot >> 6)] |= 1 << (slot & 63);
    }

    /// The slots in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=u8::MAX).filter(|&slot| self.contains(slot))
    }
}

impl FromIterator<u8> for SlotSet {
    fn from_iter<I: IntoIterator<Item = u8>>(slots: I) -> Self {
        let mut set = Self::NONE;
        for slot in slots {
            set.insert(slot);
        }
        set
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Provides the dispatch slots that this runtime serves at the moment.
///
/// ```
/// use cdb_coordination::membership::{LeaseProvider, SlotSet};
///
/// /// Slots by the ordinal of a stateful set, which changes only with its size.
/// struct Ordinal { index: u8, of: u8 }
///
/// #[async_trait::async_trait]
/// impl LeaseProvider for Ordinal {
///     async fn slots(&self) -> SlotSet {
///         (0..=255).filter(|slot| slot % self.of == self.index).collect()
///     }
/// }
/// ```
#[async_trait]
pub trait LeaseProvider: Send + Sync {
    /// The slots to look for. Called before every poll, so the answer must be cheap.
    async fn slots(&self) -> SlotSet;

    /// The number of runtimes that share the work, if this provider knows it. All of them must know
    /// the same number.
    ///
    /// On many physical partitions, runtimes that know it poll few of them each. Otherwise each
    /// polls its slots in all partitions. `None` by default.
    async fn runtimes(&self) -> Option<u32> {
        None
    }

    /// The parts below `count` that this runtime serves, in ascending order, for work that is
    /// divided into another number of parts than 256.
    ///
    /// By default part `n` belongs to slot `n % 256`. [`Membership`](crate::Membership) and
    /// [`InMemoryLeaseProvider`] divide the parts evenly.
    async fn parts(&self, count: u32) -> Vec<u32> {
        let slots = self.slots().await;
        let slot = |part: u32| u8::try_from(part % 256).unwrap_or_default();
        (0..count)
            .filter(|&part| slots.contains(slot(part)))
            .collect()
    }
}

/// A fixed share of the slots, for one runtime or for a fixed number of runtimes.
///
/// ```
/// use cdb_coordination::membership::{InMemoryLeaseProvider, LeaseProvider};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let first_of_three = InMemoryLeaseProvider::share(0, 3);
/// let slots = first_of_three.slots().await;
/// assert!((80..=90).contains(&slots.len()));
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct InMemoryLeaseProvider {
    slots: SlotSet,
    index: u32,
    total: u32,
}

impl InMemoryLeaseProvider {
    /// All slots, for a single runtime.
    pub fn all() -> Self {
        Self::share(0, 1)
    }

    /// The slots of runtime `index`, counted from zero, out of `total`.
    ///
    /// An `index` outside the count wraps around, and a `total` of zero counts as one.
    pub fn share(index: u32, total: u32) -> Self {
        let total = total.max(1);
        Self {
            slots: (0..=u8::MAX)
                .filter(|&slot| u32::from(slot) % total == index % total)
                .collect(),
            index: index % total,
            total,
        }
    }
}

#[async_trait]
impl LeaseProvider for InMemoryLeaseProvider {
    async fn slots(&self) -> SlotSet {
        self.slots.clone()
    }

    async fn runtimes(&self) -> Option<u32> {
        Some(self.total)
    }

    async fn parts(&self, count: u32) -> Vec<u32> {
        let parts = 0..count;
        parts
            .filter(|part| part % self.total == self.index)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn shares_cover_every_slot_once() {
        let mut seen = Vec::new();
        for index in 0..3 {
            let slots = InMemoryLeaseProvider::share(index, 3).slots().await;
            assert!((85..=86).contains(&slots.iter().count()));
            seen.extend(slots.iter());
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..=u8::MAX).collect::<Vec<_>>());
        assert!(InMemoryLeaseProvider::share(0, 1).slots().await.is_all());
    }

    /// A provider from before `parts`.
    struct SlotsOnly(SlotSet);

    #[async_trait]
    impl LeaseProvider for SlotsOnly {
        async fn slots(&self) -> SlotSet {
            self.0.clone()
        }
    }

    #[tokio::test]
    async fn parts_are_divided_evenly_or_follow_the_slots() {
        for index in 0..3 {
            let provider = InMemoryLeaseProvider::share(index, 3);
            assert!((333..=334).contains(&provider.parts(1000).await.len()));
            let slots: Vec<u32> = provider.slots().await.iter().map(u32::from).collect();
            assert_eq!(provider.parts(256).await, slots);
        }
        let only = SlotsOnly([3, 200].into_iter().collect());
        assert_eq!(only.parts(300).await, [3, 200, 259]);
    }

    #[test]
    fn members_share_every_slot_once() {
        let members = ["left", "middle", "right"];
        let shares = members.map(|member| SlotSet::of_member(&members, member));
        let sum: u32 = shares.iter().map(SlotSet::len).sum();
        let all: SlotSet = shares.iter().flat_map(SlotSet::iter).collect();
        assert!(sum == 256 && all.is_all());
        assert_eq!(shares[0].missing_in(&shares[1]), shares[0].len());
        assert!(SlotSet::of_member(&members, "stranger").is_empty());
        assert!(SlotSet::of_member(&["alone"], "alone").is_all());
    }
}
