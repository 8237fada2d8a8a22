//! The driver's work on orchestrations: starts them, sends their events and queries their ends.
//!
//! Every wait has a limit. The longer an orchestration takes, the rarer are the status queries, so
//! they add no load.

use std::cell::Cell;
use std::time::{Duration, Instant};

use duroxide::{Client, OrchestrationStatus};
use futures::StreamExt;

use crate::drive::Run;
use crate::runtime::keep_trying;
use crate::workload::{Job, Kind, MESSAGES, QUEUE};

/// How long an orchestration counts as in flight. A slower one is checked after the others.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long no orchestration may end, on a store without faults, until the unfinished ones count as
/// lost.
const QUIET: Duration = Duration::from_secs(300);
/// The delay of the first status query, and the longest pause between two.
const LOOKS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// The pause between two progress messages.
const SAY: Duration = Duration::from_secs(10);

/// An orchestration and its result so far.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The orchestration.
    pub job: Job,
    /// How it ended.
    pub status: Option<OrchestrationStatus>,
    /// When its end was seen, since the start of the run.
    pub after: Duration,
    /// Why its start or its events could not be sent.
    pub refused: Option<String>,
}

/// Orchestrations under way.
pub(crate) struct Play<'a> {
    client: &'a Client,
    run: &'a Run,
    began: Instant,
    ended: Cell<usize>,
    said: Cell<Instant>,
}

impl<'a> Play<'a> {
    pub(crate) fn new(client: &'a Client, run: &'a Run) -> Self {
        let began = Instant::now();
        Self {
            client,
            run,
            began,
            ended: Cell::new(0),
            said: Cell::new(began),
        }
    }

    /// Starts all orchestrations, `window` at a time. Slow ones are returned without a result.
    pub(crate) async fn to_the_end(&self) -> Vec<Ended> {
        let run = self.run;
        let more = |number: &usize| *number < run.instances || self.began.elapsed() < run.at_least;
        futures::stream::iter((0..).take_while(more))
            .map(|number| self.one(self.job(number)))
            .buffer_unordered(run.window)
            .collect()
            .await
    }

    fn job(&self, number: usize) -> Job {
        if self.run.effects {
            let kind = Kind::Effects;
            return Job { number, kind };
        }
        Job::new(number)
    }

    /// Seconds since the start.
    pub(crate) fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Ended orchestrations per second, up to the last end.
    pub(crate) fn pace(ended: &[Ended]) -> f64 {
        let ends = ended.iter().filter(|one| one.status.is_some());
        let last = ends.clone().map(|one| one.after).max().unwrap_or_default();
        let count = f64::from(u32::try_from(ends.count()).unwrap_or(u32::MAX));
        count / last.as_secs_f64().max(f64::EPSILON)
    }

    async fn one(&self, job: Job) -> Ended {
        let ended = follow(self.client, job, PATIENCE).await;
        self.ended.set(self.ended.get() + 1);
        self.say();
        Ended {
            after: self.began.elapsed(),
            ..ended
        }
    }

    fn say(&self) {
        if self.said.get().elapsed() > SAY {
            self.said.set(Instant::now());
            let (mix, seconds) = (self.run.mix.name, self.began.elapsed().as_secs());
            let (ended, all) = (self.ended.get(), self.run.instances);
            eprintln!("{mix}: {ended} of {all} after {seconds} s");
        }
    }
}

/// Starts an orchestration, sends its events, and waits up to `patience` for its end.
pub async fn follow(client: &Client, job: Job, patience: Duration) -> Ended {
    let began = Instant::now();
    let deadline = began + patience;
    let refused = hand_over(client, job, deadline).await.err();
    let mut wait = LOOKS.0;
    let mut status = None;
    while status.is_none() && refused.is_none() && Instant::now() < deadline {
        tokio::time::sleep(wait).await;
        wait = (wait * 4 / 3).min(LOOKS.1);
        status = end(client, &job.instance()).await;
    }
    Ended {
        job,
        status,
        after: began.elapsed(),
        refused,
    }
}

/// Waits for orchestrations that had not ended during the failures, as long as any of them still
/// ends.
pub(crate) async fn stragglers(client: &Client, all: &mut [Ended]) {
    let mut quiet_since = Instant::now();
    while quiet_since.elapsed() < QUIET {
        let open = all.iter_mut().filter(|one| one.status.is_none());
        let mut waits = false;
        for one in open {
            one.status = end(client, &one.job.instance()).await;
            match one.status {
                Some(_) => quiet_since = Instant::now(),
                None => waits = true,
            }
        }
        if !waits {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Starts an orchestration and sends its events. Retries a call that fails.
async fn hand_over(client: &Client, job: Job, deadline: Instant) -> Result<(), String> {
    let instance = job.instance();
    let (name, input) = (job.orchestration(), job.input());
    keep_trying(|| client.start_orchestration(&instance, &name, input)).await?;
    match job.kind {
        Kind::Messages => {
            for number in 0..MESSAGES {
                let data = number.to_string();
                keep_trying(|| client.enqueue_event(&instance, QUEUE, &*data)).await?;
            }
        }
        Kind::Cancelled => {
            // A cancellation that precedes the start waits for it.
            let child = format!("{instance}-child");
            let mut wait = LOOKS.0;
            while !is_running(client, &child).await && Instant::now() < deadline {
                tokio::time::sleep(wait).await;
                wait = (wait * 4 / 3).min(LOOKS.1);
            }
            keep_trying(|| client.cancel_instance(&instance, "enough")).await?;
        }
        _ => {}
    }
    Ok(())
}

async fn is_running(client: &Client, instance: &str) -> bool {
    let status = client.get_orchestration_status(instance).await;
    matches!(status, Ok(OrchestrationStatus::Running { .. }))
}

/// Returns how an orchestration ended. Reads its history once the instance has ended.
async fn end(client: &Client, instance: &str) -> Option<OrchestrationStatus> {
    let look = async {
        let info = client.get_instance_info(instance).await.ok()?;
        if !matches!(&*info.status, "Completed" | "Failed") {
            return None;
        }
        client.get_orchestration_status(instance).await.ok()
    };
    // A call without an answer counts as failed.
    let status = tokio::time::timeout(PATIENCE, look).await.ok()??;
    let ended = matches!(
        status,
        OrchestrationStatus::Completed { .. } | OrchestrationStatus::Failed { .. }
    );
    ended.then_some(status)
}
