//! Accepts entries and hands out messages.

use tokio::sync::oneshot;

use super::claim::Claim;
use super::entry::{ClaimedWork, HeldClaim, Reported, WorkEntry, WorkReport};
use super::inner::Inner;
use super::new_work::NewWork;
use super::queue::{NotedReport, PendingKind};
use super::settlement::Receipt;
use super::telemetry;

/// An accepted entry.
#[derive(Debug)]
pub(super) struct Accepted {
    /// Its partition and number in the queue; `None` after an immediate refusal.
    pub(super) place: Option<(u16, u64)>,
    pub(super) receipt: Receipt,
}

impl Inner {
    /// Queues an entry. Refuses a report whose claim is void.
    pub(super) fn accept(&self, entry: WorkEntry) -> Accepted {
        match entry {
            WorkEntry::Store(new) => self.accept_new(new),
            WorkEntry::Report(report) => self.accept_report(report),
        }
    }

    fn accept_new(&self, new: NewWork) -> Accepted {
        let partition = self.config.partitions.of_stream(&new.stream);
        let (number, receipt) = self.state().push(partition, PendingKind::Store(new));
        Accepted {
            place: Some((partition, number)),
            receipt,
        }
    }

    fn accept_report(&self, report: WorkReport) -> Accepted {
        let claim = match report.held {
            Some(held) => held.into_claim(),
            None => report.claim,
        };
        let now = self.container.now();
        let mut state = self.state();
        let is_ours = claim.owner == self.id;
        let owned = state.partition(claim.partition).owned.as_mut();
        let good = owned.filter(|owned| is_ours && owned.fence == claim.fence);
        let noted = good.and_then(|owned| {
            let place = (&claim.key, claim.sequence, claim.epoch);
            match report.reported {
                Reported::Done => owned.streams.reached(place, None),
                Reported::Reached(stages) => owned.streams.reached(place, Some(stages)),
                Reported::Failed(reason) => owned.streams.failed(place, reason, |message| {
                    self.config.retry.judge(message, now)
                }),
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
        let partition = claim.partition;
        let noted = NotedReport {
            claim,
            change,
            message,
            effects: report.effects,
        };
        let (number, receipt) = state.push(partition, PendingKind::Report(Box::new(noted)));
        drop(state);
        self.news.notify_waiters();
        Accepted {
            place: Some((partition, number)),
            receipt,
        }
    }

    pub(super) fn hand_out(&self, most: usize) -> Vec<ClaimedWork> {
        let now = self.container.now();
        let mut claimed = Vec::new();
        let mut state = self.state();
        let count = state.partitions.len();
        let first = state.turn;
        for offset in 0..count {
            let index = (first + offset) % count;
            let Some(owned) = &mut state.partitions[index].owned else {
                continue;
            };
            // After the lease another coordinator may hold the partition, and the fence would
            // refuse the report.
            if owned.draining || owned.until <= now {
                continue;
            }
            while claimed.len() < most
                && let Some((key, message, epoch)) = owned.streams.take(now)
            {
                telemetry::claimed(&message, now);
                let claim = Claim {
                    owner: self.id.clone(),
                    partition: u16::try_from(index).unwrap_or(u16::MAX),
                    fence: owned.fence,
                    epoch,
                    key,
                    sequence: message.sequence,
                    message_id: message.message_id.clone(),
                };
                let home = self.this.clone();
                let held = HeldClaim { claim, home };
                claimed.push(ClaimedWork { message, held });
            }
            if claimed.len() == most {
                state.turn = index + 1;
                break;
            }
        }
        claimed
    }
}
