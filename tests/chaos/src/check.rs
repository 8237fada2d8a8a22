//! The judgement after a run: from what clients were told, from the histories, and from the bookings.

use std::time::{Duration, Instant};

use cdb_provider::CosmosDBProvider;
use cdb_tests::audit;
use duroxide::{AppErrorKind, ErrorDetails, OrchestrationStatus};

use crate::ledger::{Booked, Ledger};
use crate::runtime::keep_trying;
use crate::workload::Job;

/// How long what is left of a run has to settle: locks end, messages are delivered, cancelled activities stop.
const SETTLE: Duration = Duration::from_secs(60);
/// How often the store is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(250);

/// An orchestration, and how it ended as far as is known.
pub(crate) type Ended = (Job, Option<OrchestrationStatus>);

/// What is wrong after a run: nothing, if all is well.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Orchestrations that have not ended.
    pub lost: Vec<String>,
    /// Orchestrations that ended in another way than they should.
    pub wrong: Vec<String>,
    /// Bookings that are missing, or that nobody should have made.
    pub off: Vec<String>,
    /// What histories say that happened twice or never, and documents that nobody will ever touch again.
    pub left: Vec<String>,
}

impl Verdict {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.problems().next().is_none()
    }

    /// Everything that is wrong.
    pub fn problems(&self) -> impl Iterator<Item = &String> {
        let results = self.lost.iter().chain(&self.wrong);
        results.chain(&self.off).chain(&self.left)
    }
}

/// Judges a run that has come to its end, on a store that works again.
pub(crate) async fn check(
    provider: &CosmosDBProvider,
    ledger: &Ledger,
    ended: &[Ended],
) -> Verdict {
    let mut verdict = Verdict::default();
    for (job, status) in ended {
        match status {
            None => verdict.lost.push(job.instance()),
            Some(status) if !is_right(*job, status) => {
                let instance = job.instance();
                verdict.wrong.push(format!("{instance}: {status:?}"));
            }
            Some(_) => {}
        }
    }
    verdict.left = settled(provider).await;
    let booked = keep_trying(|| ledger.read()).await;
    verdict.off = ended
        .iter()
        .filter_map(|(job, _)| difference(*job, &booked))
        .collect();
    verdict
}

fn is_right(job: Job, status: &OrchestrationStatus) -> bool {
    match (job.output(), status) {
        (Some(expected), OrchestrationStatus::Completed { output, .. }) => output == expected,
        (None, OrchestrationStatus::Failed { details, .. }) => matches!(
            details,
            ErrorDetails::Application {
                kind: AppErrorKind::Cancelled { .. },
                ..
            }
        ),
        _ => false,
    }
}

/// What is left when nothing changes any more.
async fn settled(provider: &CosmosDBProvider) -> Vec<String> {
    let deadline = Instant::now() + SETTLE;
    loop {
        let problems = keep_trying(|| audit(provider.container())).await;
        if problems.is_empty() || Instant::now() > deadline {
            return problems;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// How the bookings of an orchestration differ from what it should have booked.
fn difference(job: Job, booked: &Booked) -> Option<String> {
    let entries = booked.get(&job.instance());
    let found = entries
        .into_iter()
        .flatten()
        .map(|(step, entry)| (step.clone(), entry.amount))
        .collect();
    let expected = job.bookings();
    (expected != found).then(|| {
        let instance = job.instance();
        format!("{instance} booked {found:?} instead of {expected:?}")
    })
}
