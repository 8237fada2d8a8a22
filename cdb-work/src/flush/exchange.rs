//! Accepts entries and hands out messages.

use cdb_model::Timestamp;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::attempt::HandOut;
use super::entry::{ClaimGuard, ClaimedWork, Reported, WorkEntry, WorkReport};
use crate::memory::inner::Inner;
use crate::memory::queue::{NotedReport, PendingKind};
use crate::memory::settlement::Receipt;
use crate::memory::state::{State, later};
use crate::streams::claim::Claim;
use crate::streams::documents::Lane;
use crate::streams::new_work::NewWork;
use crate::streams::order::Streams;
use crate::streams::stream::{Next, OWNER_LOST, Selection, StreamKey, Taken};
use crate::telemetry;

/// An accepted entry.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// Its partition and number in the queue; `None` after an immediate refusal.
    pub(crate) place: Option<(u16, u64)>,
    pub(crate) receipt: Receipt,
}

/// The messages that one call hands out.
struct Claiming {
    selection: Selection,
    now: Timestamp,
    most: usize,
    claimed: Vec<HandOut>,
}

impl Claiming {
    fn is_full(&self) -> bool {
        self.claimed.len() == self.most
    }
}

impl Inner {
    /// Queues an entry. Refuses a report whose claim is void.
    pub(crate) fn accept(&self, entry: WorkEntry) -> Accepted {
        match entry {
            WorkEntry::Store(new) => self.accept_new(new),
            WorkEntry::Report(report) => self.accept_report(report),
        }
    }

    fn accept_new(&self, new: NewWork) -> Accepted {
        let partition = self.config.partitions.of_stream(&new.stream);
        let (place, receipt) = self.state().push(partition, PendingKind::Store(new));
        Accepted {
            place: Some(place),
            receipt,
        }
    }

    fn accept_report(&self, report: WorkReport) -> Accepted {
        let claim = match report.guard {
            Some(guard) => guard.into_claim(),
            None => report.claim,
        };
        let now = self.container.now();
        let mut state = self.state();
        let is_ours = claim.owner == self.id;
        let good = state.owned_under(&claim).filter(|_| is_ours);
        let noted = good.and_then(|owned| {
            let place = claim.in_stream();
            match report.reported {
                Reported::Done => owned.streams.reached(place, None),
                Reported::Reached(stages) => owned.streams.reached(place, Some(stages)),
                Reported::Failed(reason) => owned
                    .streams
                    .failed(place, reason, |message| self.config.judge(message, now)),
                Reported::Rejected(reason) => {
                    let exhausted = |_: &_| self.config.judge_exhausted(now);
                    owned.streams.failed(place, reason, exhausted)
                }
            }
        });
        let Some((change, message)) = noted else {
            let (reply, receipt) = oneshot::channel();
            // The receiver exists.
            let _received = reply.send(Err(claim.not_owner()));
            return Accepted {
                place: None,
                receipt: Receipt(receipt),
            };
        };
        let (place, receipt) = state.push_report(NotedReport {
            claim,
            change,
            message,
            effects: report.effects,
        });
        drop(state);
        self.news.notify_waiters();
        Accepted {
            place: Some(place),
            receipt,
        }
    }

    /// Takes up to `most` messages of a lane, or of all, to hand out.
    pub(crate) fn hand_out(&self, lane: Option<Lane>, most: usize) -> Vec<HandOut> {
        self.fail_timed_out();
        let mut state = self.state();
        for (index, owned) in state.owned() {
            owned.is_silent = self.is_silent(index);
        }
        let lanes = Lane::BOTH.into_iter();
        let claimed_lanes = lanes.filter(|of| lane.is_none_or(|lane| lane == *of));
        state.claimed_lanes.extend(claimed_lanes);
        let count = state.partitions.len();
        let first = state.turn;
        let mut claiming = Claiming {
            selection: state.selection(lane),
            now: self.container.now(),
            most,
            claimed: Vec::new(),
        };
        for offset in 0..count {
            let index = (first + offset) % count;
            self.hand_out_from(&mut state, index, &mut claiming);
            if claiming.is_full() {
                state.turn = index + 1;
                break;
            }
        }
        claiming.claimed
    }

    /// Hands out messages of one partition.
    fn hand_out_from(&self, state: &mut State, index: usize, claiming: &mut Claiming) {
        while !claiming.is_full()
            && let Some((claim, taken)) = self.take_from(state, index, claiming.now, |streams| {
                streams.first_due(claiming.selection, claiming.now)
            })
        {
            claiming.selection.suspects &= !taken.is_suspect;
            let handed_out = self.handed_out(state, claim, taken, claiming.now);
            claiming.claimed.extend(handed_out);
        }
    }

    /// Hands out a message that was just stored, if it is the next one of its stream and nothing
    /// else has claimed it. The streams have no order among each other, so it may pass those of
    /// other streams.
    pub(crate) fn hand_out_stored(&self, key: &StreamKey, sequence: u64) -> Option<HandOut> {
        let at = self.config.partitions.of_stream(key.stream());
        let (now, index) = (self.container.now(), usize::from(at));
        let mut state = self.state();
        state.claimed_lanes.insert(key.lane());
        if let Some(owned) = &mut state.partition(at).owned {
            owned.is_silent = self.is_silent(at);
        }
        let (claim, taken) = self.take_from(&mut state, index, now, |streams| {
            let is_due = streams.is_due(key, sequence, now);
            is_due.then(|| key.clone())
        })?;
        self.handed_out(&mut state, claim, taken, now)
    }

    /// A claimed message, unless the attempt of a former owner at it has failed.
    fn handed_out(
        &self,
        state: &mut State,
        claim: Claim,
        taken: Taken,
        now: Timestamp,
    ) -> Option<HandOut> {
        let Next::HandOut {
            delivery,
            store_start,
        } = taken.next
        else {
            self.fail_attempt(state, &claim, OWNER_LOST.to_owned());
            return None;
        };
        telemetry::claimed(&taken.message, now);
        let guard = ClaimGuard {
            claim,
            home: self.this.clone(),
            is_delivered: false,
        };
        let claimed = ClaimedWork {
            message: taken.message,
            delivery,
            guard,
        };
        Some(HandOut {
            claimed,
            store_start,
        })
    }

    fn take_from(
        &self,
        state: &mut State,
        index: usize,
        now: Timestamp,
        choose: impl FnOnce(&Streams) -> Option<StreamKey>,
    ) -> Option<(Claim, Taken)> {
        let owned = state.partitions[index].owned.as_mut()?;
        if !owned.hands_out(now) {
            return None;
        }
        let during = Instant::now()..later(self.config.claim_timeout);
        let most = self.config.retry.max_attempts;
        let key = choose(&owned.streams)?;
        let taken = owned.streams.take(key, during, most)?;
        let claim = Claim {
            owner: self.id.clone(),
            partition: u16::try_from(index).unwrap_or(u16::MAX),
            fence: owned.fence,
            epoch: taken.epoch,
            key: taken.key.clone(),
            sequence: taken.message.sequence,
            message_id: taken.message.message_id.clone(),
        };
        Some((claim, taken))
    }
}
