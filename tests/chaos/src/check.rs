//! The judgement after a run: from what clients were told, from the histories, and from the bookings.
//!
//! It relies on nothing of the provider that is judged but the form of its documents. What is lost counts as lost alone: its
//! documents and bookings are not held against it once more.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cdb_tests::audit_by_instance;
use duroxide::{AppErrorKind, ErrorDetails, OrchestrationStatus};

use crate::ledger::Booked;
use crate::play::Ended;
use crate::runtime::keep_trying;
use crate::site::Site;
use crate::workload::Job;

/// How long what is left of a run has to settle: locks end, messages are delivered, cancelled activities stop.
const SETTLE: Duration = Duration::from_secs(600);
/// How often the store is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(500);

/// What is wrong after a run: nothing, if all is well.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Orchestrations that have not ended.
    pub lost: Vec<String>,
    /// Orchestrations that ended in another way than they should.
    pub wrong: Vec<String>,
    /// Orchestrations of which bookings are missing, or that nobody should have made.
    pub off: Vec<String>,
    /// Instances in whose histories something happened twice or never, or with documents that nobody will ever touch again.
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
pub(crate) async fn check(site: &Site, all: &[Ended]) -> Result<Verdict, String> {
    let mut verdict = Verdict::default();
    let mut lost = Vec::new();
    for one in all {
        let instance = one.job.instance();
        match (&one.status, &one.refused) {
            (None, refused) => {
                lost.push(one.job);
                let why = refused.as_ref().map(|why| format!(": {why}"));
                verdict.lost.push(instance + &why.unwrap_or_default());
            }
            (Some(status), _) if !is_right(one.job, status) => {
                verdict.wrong.push(format!("{instance}: {status:?}"));
            }
            (Some(_), _) => {}
        }
    }
    verdict.left = settled(site, &lost).await?;
    let booked = keep_trying(|| site.ledger.read()).await?;
    let ended = all.iter().filter(|one| one.status.is_some());
    verdict.off = ended
        .filter_map(|one| difference(one.job, &booked))
        .collect();
    Ok(verdict)
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
async fn settled(site: &Site, lost: &[Job]) -> Result<Vec<String>, String> {
    let deadline = Instant::now() + SETTLE;
    loop {
        let found = keep_trying(|| audit_by_instance(&site.documents)).await?;
        let problems = told(found, lost);
        if problems.is_empty() || Instant::now() > deadline {
            return Ok(problems);
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn told(found: BTreeMap<String, Vec<String>>, lost: &[Job]) -> Vec<String> {
    found
        .into_iter()
        .filter(|(instance, _)| !lost.iter().any(|job| job.has(instance)))
        .map(|(instance, problems)| format!("`{instance}`: {}", problems.join("; ")))
        .collect()
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
