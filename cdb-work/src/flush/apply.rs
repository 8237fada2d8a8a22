//! Takes over the results of a batch that was written: the order of streams, and receipts.

use super::write::Flight;
use crate::memory::inner::Inner;
use crate::memory::plan::{Heads, Plan};
use crate::memory::queue::Pending;
use crate::memory::settlement::Settlement;
use crate::streams::documents::Lane;
use crate::streams::stream::{Change, Progress};
use crate::telemetry;

impl Inner {
    /// Takes over the results of a plan that was written.
    pub(crate) fn apply(&self, flight: &mut Flight<'_>, plan: Plan, heads: &mut Heads) {
        heads.apply(&plan);
        telemetry::stored(plan.stored.len());
        let mut state = self.state();
        let mut progress = Progress::Known;
        let most = self.config.most_in_memory;
        let full: Vec<Lane> = Lane::BOTH
            .into_iter()
            .filter(|lane| state.in_memory(*lane) >= most)
            .collect();
        let partition = state.partition(flight.partition);
        if let Some(owned) = &mut partition.owned {
            if let Some((fence, until)) = plan.lease
                && owned.fence == fence
            {
                owned.until = until;
                owned.token.clone_from(&plan.token);
            }
            for report in flight.entries.iter().filter_map(Pending::report) {
                owned.streams.stored(&report.claim.key, &report.message);
            }
            for (key, done) in &plan.done {
                progress = progress.max(owned.streams.learn_done(key, *done));
            }
        }
        let has_news = progress == Progress::News || !plan.stored.is_empty();
        let mut sequences = vec![0; flight.entries.len()];
        for (number, message) in plan.stored {
            sequences[number] = message.sequence;
            if let Some(owned) = &mut partition.owned
                && !full.contains(&message.lane)
            {
                // Message 1 was stored together with its stream, so no message is completed before
                // it.
                let starts_here = message.sequence == 1;
                owned.streams.learn(message, starts_here);
            }
        }
        drop(state);
        for (pending, sequence) in std::mem::take(&mut flight.entries)
            .into_iter()
            .zip(sequences)
        {
            let outcome = outcome(&pending, sequence);
            pending.settle(Ok(outcome));
        }
        if has_news {
            self.news.notify_waiters();
        }
    }
}

/// The outcome of a written entry.
pub(crate) fn outcome(pending: &Pending, sequence: u64) -> Settlement {
    let Some(report) = pending.report() else {
        return Settlement::Stored { sequence };
    };
    let (outcome, named) = match report.change {
        Change::End => (Settlement::Done, Some("done")),
        Change::Start | Change::Progress => (Settlement::Progressed, None),
        Change::Retry => {
            let due_at = report.message.due_at;
            (Settlement::Retrying { due_at }, Some("failed"))
        }
        Change::Dead => (Settlement::Dead, Some("dead")),
    };
    if let Some(named) = named {
        telemetry::ended(named);
    }
    outcome
}
