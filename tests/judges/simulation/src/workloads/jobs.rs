//! The orchestrations of the chaos suite: in waves, or one by one. Their results, histories and
//! bookings are judged, and in calm weather also how long they take.

use std::ops::Range;

use cdb_chaos::{Ended, Job, KINDS, Kind, LONG_KINDS, follow, messaging, transactional};
use cdb_tests::audit_history;

use crate::workload::prelude::*;

/// The longest time that an orchestration may take in calm weather, besides its work and the time
/// of faults that can delay all nodes.
const LATEST: Duration = Duration::from_secs(120);

/// The pause between two orchestrations that run one by one.
const REST: Range<Duration> = SECOND..Duration::from_secs(600);

/// Waves of orchestrations, one of each kind.
pub(super) struct Waves;

/// One orchestration after another. More of those whose activities take longer than their locks
/// would take all workers.
struct OneByOne {
    about: About,
    kinds: &'static [Kind],
}

/// Activities that take longer than their locks.
pub(super) fn long() -> impl Workload {
    OneByOne {
        about: About::always(
            "long",
            "Activities and sessions that take longer than their locks",
        ),
        kinds: &LONG_KINDS,
    }
}

/// Transactional activities, which all nodes can run.
pub(super) fn effects() -> impl Workload {
    OneByOne {
        about: About::always("effects", "Transactional activities"),
        kinds: &[Kind::Effects],
    }
}

#[async_trait(?Send)]
impl Workload for Waves {
    fn about(&self) -> About {
        About::always("waves", "Orchestrations of every kind, in waves")
    }

    async fn run(&self, caller: &Caller) -> Seen {
        let mut random = Random::new(caller.seed, "waves");
        let longest = caller.cluster.profile.wave;
        let (mut result, mut following, mut number) = (Seen::default(), JoinSet::new(), 0);
        while caller.goes_on() {
            for _ in KINDS {
                following.spawn(follow_job(caller.clone(), Job::new(number)));
                number += 1;
            }
            caller.rest(&mut random, SECOND..longest).await;
            while let Some(one) = following.try_join_next() {
                result.add(one.expect("a client does not panic"));
            }
        }
        while let Some(one) = following.join_next().await {
            result.add(one.expect("a client does not panic"));
        }
        result
    }
}

#[async_trait(?Send)]
impl Workload for OneByOne {
    fn about(&self) -> About {
        self.about
    }

    fn activities(&self, all: Activities, node: &StartingNode<'_>) -> Activities {
        if self.kinds != [Kind::Effects] {
            return all;
        }
        let messaging = messaging(node.documents, node.config.pace.messages());
        all.merge(transactional(node.provider, &messaging))
    }

    async fn run(&self, caller: &Caller) -> Seen {
        let mut random = Random::new(caller.seed, &format!("{:?}", self.kinds));
        let (mut all, mut number) = (Seen::default(), 0);
        while caller.goes_on() {
            let kind = self.kinds[number % self.kinds.len()];
            all.add(follow_job(caller.clone(), Job { number, kind }).await);
            number += 1;
            caller.rest(&mut random, REST).await;
        }
        all
    }
}

/// Follows an orchestration and judges its history at once, before retention deletes it.
async fn follow_job(caller: Caller, job: Job) -> (Ended, Vec<String>) {
    let started = caller.began.elapsed();
    let ended = follow(&caller.client, job, BOUND).await;
    if ended.status.is_none() {
        return (ended, Vec::new());
    }
    let (instance, documents) = (job.instance(), caller.documents.view());
    let audit = keep_trying(|| audit_history(&documents, &instance)).await;
    let problems = audit.unwrap_or_else(|error| vec![error]).into_iter();
    let named = problems.map(|problem| format!("`{instance}`: {problem}"));
    let late = lateness(&caller, started, &ended).await;
    let problems = named.chain(late).collect();
    (ended, problems)
}

/// Returns the problem of an orchestration that ended more than two minutes late. The time of
/// faults that can delay all nodes does not count.
async fn lateness(caller: &Caller, started: Duration, ended: &Ended) -> Option<String> {
    let deployments = caller.cluster.deployments().await;
    let end = started + ended.after;
    let overlap = |delay: &Range<Duration>| {
        let from = delay.start.max(started);
        delay.end.min(end).saturating_sub(from)
    };
    let delays = caller.delays.as_ref()?.iter().chain(&deployments);
    let excused: Duration = delays.map(overlap).sum();
    let late = ended.after.saturating_sub(ended.job.work() + excused);
    (late > LATEST).then(|| {
        let instance = ended.job.instance();
        format!("{instance} ended {} s late", late.as_secs())
    })
}

impl Seen {
    fn add(&mut self, followed: (Ended, Vec<String>)) {
        self.ended.push(followed.0);
        self.problems.extend(followed.1);
    }
}
