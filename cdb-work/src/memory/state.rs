//! The state and the queue of each virtual partition. All changes are synchronous.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use cdb_model::Timestamp;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::queue::{NotedReport, Pending, PendingKind};
use super::settlement::Receipt;
use crate::config::WorkConfig;
use crate::streams::claim::Claim;
use crate::streams::documents::Lane;
use crate::streams::order::Streams;
use crate::streams::stream::Selection;
use crate::timing::YEAR;

/// The time after a duration. Limits an unrepresentable time to one year.
pub(crate) fn later(after: Duration) -> Instant {
    Instant::now() + after.min(YEAR)
}

/// The synchronous state of a coordinator.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) partitions: Vec<PartitionState>,
    newest_entry: u64,
    /// The partition where the next claim begins, so that all partitions take turns.
    pub(crate) turn: usize,
    /// The lanes whose messages were claimed here.
    pub(crate) claimed_lanes: BTreeSet<Lane>,
    /// Entries that belong to no strategy: the coordinator writes them.
    pub(crate) own_entries: BTreeSet<(u16, u64)>,
}

/// One virtual partition.
#[derive(Debug, Default)]
pub(crate) struct PartitionState {
    pub(crate) queue: VecDeque<Pending>,
    pub(crate) owned: Option<Owned>,
}

/// A held partition.
#[derive(Debug, Default)]
pub(crate) struct Owned {
    pub(crate) fence: u64,
    /// The token of the last batch that was written under the fence.
    pub(crate) token: String,
    pub(crate) until: Timestamp,
    /// No more messages are claimed, and the partition is released when all claims have ended.
    pub(crate) draining: bool,
    /// Whether its physical partition does not answer, while others do.
    pub(crate) is_silent: bool,
    /// Since when another coordinator should hold it.
    pub(crate) unwanted_since: Option<Instant>,
    /// When the last renewal of the lease was sent.
    pub(crate) renewed_at: Option<Instant>,
    pub(crate) streams: Streams,
}

impl Owned {
    /// Whether messages are handed out. After the lease another coordinator may hold the partition,
    /// and the fence would refuse the report. While the partition does not answer, neither starts
    /// nor reports can be written.
    pub(crate) fn hands_out(&self, now: Timestamp) -> bool {
        !self.draining && !self.is_silent && self.until > now
    }

    /// Drains the partition if another coordinator should hold it. While a message is claimed for
    /// longer than [`WorkConfig::drain`], the other streams continue. They pause for one lease after
    /// each claim timeout, because handlers that overlap would keep the partition here.
    pub(crate) fn drain(&mut self, is_wanted: bool, now: Instant, config: &WorkConfig) {
        if is_wanted {
            self.unwanted_since = None;
            self.draining = false;
            return;
        }
        let since = *self.unwanted_since.get_or_insert(now);
        let waited = now.saturating_duration_since(since);
        let is_slow = now
            .checked_sub(config.drain)
            .is_some_and(|time| self.streams.has_claim_before(time));
        let pause = config.claim_timeout..config.claim_timeout.saturating_add(config.lease);
        if waited >= pause.end {
            self.unwanted_since = Some(now);
        }
        self.draining = !is_slow || pause.contains(&waited);
    }
}

impl State {
    pub(crate) fn new(partitions: u16) -> Self {
        Self {
            partitions: (0..partitions).map(|_| PartitionState::default()).collect(),
            newest_entry: 0,
            turn: 0,
            claimed_lanes: BTreeSet::new(),
            own_entries: BTreeSet::new(),
        }
    }

    /// A partition of this coordinator. The caller has checked the owner of a claim.
    pub(crate) fn partition(&mut self, index: u16) -> &mut PartitionState {
        let last = self.partitions.len() - 1;
        &mut self.partitions[usize::from(index).min(last)]
    }

    pub(crate) fn fence_of(&mut self, index: u16) -> Option<u64> {
        let owned = self.partition(index).owned.as_ref();
        owned.map(|owned| owned.fence)
    }

    pub(crate) fn fence_and_token(&mut self, index: u16) -> Option<(u64, String)> {
        let owned = self.partition(index).owned.as_ref();
        owned.map(|owned| (owned.fence, owned.token.clone()))
    }

    pub(crate) fn newest_entry(&self) -> u64 {
        self.newest_entry
    }

    /// The held partitions.
    pub(crate) fn owned(&mut self) -> impl Iterator<Item = (u16, &mut Owned)> {
        let indexed = self.partitions.iter_mut().enumerate();
        indexed.filter_map(|(index, partition)| {
            let index = u16::try_from(index).unwrap_or(u16::MAX);
            partition.owned.as_mut().map(|owned| (index, owned))
        })
    }

    /// The messages that can be handed out now.
    pub(crate) fn selection(&mut self, lane: Option<Lane>) -> Selection {
        let now = Instant::now();
        let in_hand = self
            .owned()
            .any(|(_, owned)| owned.streams.has_suspect_in_hand(now));
        Selection {
            lane,
            suspects: !in_hand,
        }
    }

    /// How many messages of the claimed lanes are in memory, of partitions that hand out messages.
    pub(crate) fn claimable_in_memory(&mut self, now: Timestamp) -> usize {
        let lanes = std::mem::take(&mut self.claimed_lanes);
        let owned = self.owned().filter(|(_, owned)| owned.hands_out(now));
        let in_memory = |owned: &Owned| {
            lanes
                .iter()
                .map(|lane| owned.streams.in_memory(*lane))
                .sum::<usize>()
        };
        let count = owned.map(|(_, owned)| in_memory(owned)).sum();
        self.claimed_lanes = lanes;
        count
    }

    /// Whether a message of a lane may be kept in memory. A lane that this process does not claim must
    /// not fill the memory.
    pub(crate) fn has_room_for(&self, lane: Lane, most: usize) -> bool {
        self.claimed_lanes.contains(&lane) || self.in_memory(lane) < most
    }

    /// How many messages of a lane are in memory.
    pub(crate) fn in_memory(&self, lane: Lane) -> usize {
        let owned = self
            .partitions
            .iter()
            .flat_map(|partition| &partition.owned);
        owned.map(|owned| owned.streams.in_memory(lane)).sum()
    }

    /// Takes the entries of these partitions that belong to no strategy.
    pub(crate) fn take_own_entries(&mut self, is_wanted: impl Fn(u16) -> bool) -> Vec<(u16, u64)> {
        let (taken, left) = std::mem::take(&mut self.own_entries)
            .into_iter()
            .partition::<BTreeSet<_>, _>(|(partition, _)| is_wanted(*partition));
        self.own_entries = left;
        taken.into_iter().collect()
    }

    /// Returns the partition of a claim, if it is owned under the fence of the claim.
    pub(crate) fn owned_under(&mut self, claim: &Claim) -> Option<&mut Owned> {
        let owned = self.partition(claim.partition).owned.as_mut();
        owned.filter(|owned| owned.fence == claim.fence)
    }

    /// Queues a report. Returns its place.
    pub(crate) fn push_report(&mut self, report: NotedReport) -> ((u16, u64), Receipt) {
        let partition = report.claim.partition;
        self.push(partition, PendingKind::Report(Box::new(report)))
    }

    /// Queues an entry. Returns its place.
    pub(crate) fn push(&mut self, partition: u16, kind: PendingKind) -> ((u16, u64), Receipt) {
        self.newest_entry += 1;
        let number = self.newest_entry;
        let (reply, receipt) = oneshot::channel();
        let pending = Pending::new(number, kind, reply);
        self.partition(partition).queue.push_back(pending);
        ((partition, number), Receipt(receipt))
    }
}
