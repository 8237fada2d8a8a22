//! Sends the requests of limits: patches of the limited keys, and renewals of the lease of this process.
//!
//! The decisions are those of [`protocol`](crate::queue::limits::protocol). A request without an answer after a while
//! counts as lost: the protocol finds out whether it was applied.

use cdb_client::Error as ClientError;
use cdb_coordination::membership::name_hash;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until, timeout};

use super::leases::{self, time_of};
use super::lines;
use super::report::{KeyMetrics, Outage, Usage};
use crate::queue::Services;
use crate::queue::limits::protocol::{
    Key, LeaseAnswer, LeaseRequest, Message, Reply, RuntimeId, Time,
};
use crate::stored::documents::{LimitedKey, RuntimeLease};
use crate::timing::{LIMITS_ANSWER, LIMITS_LOOK, PERMITS_RETURNED};

/// The most leases of others that a process looks at, at a time. Other processes look at other ones.
const MAX_SUSPECTS: usize = 5;

/// An answer to a request of this process under the name `by`, or why it has none.
struct Answered {
    by: RuntimeId,
    reply: Reply,
    failure: Option<String>,
}

/// Runs until the provider stops and no limited activity runs. Sends nothing while there are no limits.
pub(crate) async fn run(services: Services) {
    let closing = services.store.tasks.closing();
    let queue = services.activities().local();
    let wanted = queue.with(|queue, _| queue.permits_wanted());
    let (mut metrics, mut outage) = (KeyMetrics::default(), Outage::default());
    let mut sent = FuturesUnordered::new();
    let mut next_look = Instant::now();
    let mut ends_at = None;
    loop {
        if closing.is_cancelled() && ends_at.is_none() {
            queue.with(|queue, _| queue.close_limits());
            ends_at = Some(Instant::now() + PERMITS_RETURNED);
        }
        let time = time_of(services.store.now());
        let (messages, by, wake_at) = queue.with(|queue, now| {
            queue.set_clock(time, now);
            queue.requests(now)
        });
        sent.extend(messages.into_iter().map(|message| {
            let (services, by) = (services.clone(), by.clone());
            async move { send(&services, by, message).await }
        }));
        let is_limited = wake_at.is_some();
        let now = Instant::now();
        if next_look <= now {
            next_look = now + LIMITS_LOOK;
            metrics.report(usage(&services, time));
            look_at_leases(&services);
            queue.forget_unused();
        }
        if let Some(ends_at) = ends_at {
            let runs = usage(&services, time).iter().any(|(_, it)| it.running > 0);
            let returns = ends_at > now && queue.with(|queue, _| queue.has_permits());
            if !runs && !returns {
                break;
            }
        }
        let wake_at = wake_at.map_or(next_look, |at| next_look.min(at.into()));
        let wake_at = ends_at
            .filter(|at| *at > now)
            .map_or(wake_at, |at| at.min(wake_at));
        tokio::select! {
            () = closing.cancelled(), if !closing.is_cancelled() => {}
            () = wanted.notified() => {}
            Some(answered) = sent.next() => note(&services, answered, &mut outage),
            () = sleep_until(wake_at), if is_limited || ends_at.is_some() => {}
        }
    }
    metrics.report([]);
    // Others need not wait for the end of the lease.
    let (by, until) = queue.with(|queue, _| queue.lease());
    if until > Time::ZERO {
        let _unconfirmed = lease(&services, LeaseRequest::Fence(by, until)).await;
    }
}

/// Notes an answer.
fn note(services: &Services, answered: Answered, outage: &mut Outage) {
    let Answered { by, reply, failure } = answered;
    match &reply {
        Reply::Lease(LeaseRequest::Renew { .. }, _) => outage.note(None, failure.as_deref()),
        Reply::Line(key, _) => outage.note(Some(key), failure.as_deref()),
        Reply::Lease(..) => {}
    }
    let queue = services.activities().local();
    queue.with(|queue, now| queue.answered(&by, reply, now));
}

async fn send(services: &Services, by: RuntimeId, message: Message) -> Answered {
    let (reply, failure) = match message {
        Message::Lease(request) => lease(services, request).await,
        Message::Line(key, request) => {
            let partition = LimitedKey::key_of(&key).instance_id;
            let answer = lines::send(services.container(), &key, &request);
            let answer = in_time(services, &partition, answer).await;
            let failure = answer.as_ref().err().cloned();
            let answer = answer.unwrap_or(lines::unanswered(&request));
            (Reply::Line(key, answer), failure)
        }
    };
    Answered { by, reply, failure }
}

async fn lease(services: &Services, request: LeaseRequest) -> (Reply, Option<String>) {
    let (LeaseRequest::Renew { id, .. } | LeaseRequest::Fence(id, _)) = &request;
    let partition = RuntimeLease::key_of(id).instance_id;
    let answer = leases::send(services.container(), &request);
    let answer = in_time(services, &partition, answer).await;
    let failure = answer.as_ref().err().cloned();
    let answer = answer.unwrap_or(LeaseAnswer::Lost);
    (Reply::Lease(request, answer), failure)
}

/// Awaits an answer, unless its partition does not answer.
///
/// # Errors
/// Fails with the reason as text. The request may be applied.
async fn in_time<T>(
    services: &Services,
    partition: &str,
    answer: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, String> {
    let answer = timeout(LIMITS_ANSWER, Box::pin(answer));
    let partition = partition.into();
    match services
        .container()
        .while_answering(&partition, answer)
        .await
    {
        Ok(Ok(answer)) => answer.map_err(|error| error.to_string()),
        Ok(Err(_)) | Err(_) => Err("its partition does not answer".to_owned()),
    }
}

/// Looks in the background at the leases of some runtimes that hold permits which items wait for here.
fn look_at_leases(services: &Services) {
    let queue = services.activities().local();
    let (mut suspects, by) = queue.with(|queue, _| (queue.suspects(), queue.lease().0));
    if suspects.is_empty() {
        return;
    }
    let now = services.store.now();
    // In another order at each time and in each process.
    suspects.sort_by_cached_key(|id| name_hash(&format!("{id} {by} {now}")));
    suspects.truncate(MAX_SUSPECTS);
    services.spawn(|services| async move {
        for id in suspects {
            match leases::ended(services.container(), &id, now).await {
                Ok(Some((until, is_dead))) => {
                    let queue = services.activities().local();
                    queue.with(|queue, _| queue.found_ended(&id, until, is_dead));
                }
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, %id, "cannot read the lease of a runtime"),
            }
        }
    });
}

/// Returns what this process uses of each limited key, at a time of the service.
fn usage(services: &Services, time: Time) -> Vec<(Key, Usage)> {
    let usage = services.activities().local().with(|queue, _| queue.usage());
    let usage = usage.into_iter().map(|(key, usage)| {
        let reported = Usage {
            running: u32::try_from(usage.running).unwrap_or(u32::MAX),
            waiting: u32::try_from(usage.waiting).unwrap_or(u32::MAX),
            oldest: usage
                .oldest
                .map(|since| time.saturating_sub(since))
                .unwrap_or_default(),
        };
        (key, reported)
    });
    usage
        .filter(|(_, usage)| *usage != Usage::default())
        .collect()
}
