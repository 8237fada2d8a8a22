//! Judges a run by the results that clients received, the histories and the bookings.
//!
//! It depends only on the form of the documents, not on the provider. A lost orchestration counts
//! once, as lost: its documents and bookings are not counted again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cdb_client::ContainerClient;
use cdb_provider::documents::Durable;
use cdb_tests::audit_by_instance;
use duroxide::{AppErrorKind, ErrorDetails, OrchestrationStatus};

use crate::effects::{Counted, Documents};
use crate::ledger::{Booked, Ledger};
use crate::play::Ended;
use crate::runtime::keep_trying;
use crate::workload::{Job, Kind};

/// The time that the rest of a run has to finish: locks expire, messages are delivered, cancelled
/// activities stop.
const SETTLE: Duration = Duration::from_secs(600);
/// The first pause between two looks at the store, which read all documents. It doubles.
const LOOK: Duration = Duration::from_millis(500);
/// The longest pause between two looks.
const LONGEST_LOOK: Duration = Duration::from_secs(10);

/// The problems of a run.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Orchestrations that have not ended.
    pub lost: Vec<String>,
    /// Orchestrations that ended with another result than expected.
    pub wrong: Vec<String>,
    /// Orchestrations with missing or unexpected bookings, or with lost or doubled effects.
    pub off: Vec<String>,
    /// Instances with duplicate or missing events, or with documents that no runtime will process.
    pub left: Vec<String>,
}

impl Verdict {
    /// Returns `true` if there is no problem.
    pub fn is_clean(&self) -> bool {
        self.problems().next().is_none()
    }

    /// Returns all problems.
    pub fn problems(&self) -> impl Iterator<Item = &String> {
        let results = self.lost.iter().chain(&self.wrong);
        results.chain(&self.off).chain(&self.left)
    }
}

/// Judges a finished run, on a store without faults: `documents` are those of the orchestrations.
///
/// # Errors
/// When the store cannot be read.
pub async fn check(
    ledger: &Ledger,
    documents: &ContainerClient<Documents>,
    all: &[Ended],
) -> Result<Verdict, String> {
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
    verdict.left = settled(&documents.view(), &lost).await?;
    let booked = keep_trying(|| ledger.read()).await?;
    let ended = || all.iter().filter(|one| one.status.is_some());
    for one in ended() {
        verdict.off.extend(difference(one.job, &booked));
    }
    let effects = ended().filter(|one| one.job.kind == Kind::Effects);
    verdict.off.extend(miscounted(documents, effects).await?);
    Ok(verdict)
}

/// Returns the problems of transactional activities that remain when all messages are received.
async fn miscounted(
    documents: &ContainerClient<Documents>,
    all: impl Iterator<Item = &Ended>,
) -> Result<Vec<String>, String> {
    let instances: Vec<String> = all.map(|one| one.job.instance()).collect();
    let (deadline, mut pause) = (Instant::now() + SETTLE, LOOK);
    loop {
        let counted = keep_trying(|| Counted::read(documents)).await?;
        let problems = instances.iter().filter_map(|one| counted.problem(one));
        let problems: Vec<String> = problems.collect();
        if problems.is_empty() || Instant::now() > deadline {
            return Ok(problems);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_LOOK);
    }
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

/// Returns the problems that remain when the store no longer changes.
async fn settled(
    documents: &ContainerClient<Durable>,
    lost: &[Job],
) -> Result<Vec<String>, String> {
    let (deadline, mut pause) = (Instant::now() + SETTLE, LOOK);
    loop {
        let found = keep_trying(|| audit_by_instance(documents)).await?;
        let problems = told(found, lost);
        if problems.is_empty() || Instant::now() > deadline {
            return Ok(problems);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_LOOK);
    }
}

fn told(found: BTreeMap<String, Vec<String>>, lost: &[Job]) -> Vec<String> {
    found
        .into_iter()
        .filter(|(instance, _)| !lost.iter().any(|job| job.has(instance)))
        .map(|(instance, problems)| format!("`{instance}`: {}", problems.join("; ")))
        .collect()
}

/// Compares the bookings of an orchestration with the expected ones.
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
