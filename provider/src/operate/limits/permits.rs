//! The permits of this process: obtained while activities with a limited key wait or run, renewed,
//! and given back.

use std::collections::HashMap;

use cdb_model::{Document as _, DocumentKey as _, Stored, Timestamp};
use futures::StreamExt as _;
use futures::stream;
use tokio::time::{Instant, timeout};

use super::report::{KeyMetrics, Outage, Usage};
use super::share::{Division, divide, is_alone, own, rate};
use crate::error::{Error, Result};
use crate::queue::activities::KnownActivity;
use crate::queue::local_queue::{Allowance, Demand, Key};
use crate::queue::{CONCURRENCY, Services};
use crate::stored::documents::Permits;
use crate::timing::{PERMITS_ANSWER, PERMITS_ASKED, PERMITS_MARGIN, PERMITS_RENEWED};

/// How often a write is tried again in a round when another runtime was faster.
const MAX_ATTEMPTS: u32 = 5;

/// What this process holds of a key.
#[derive(Debug)]
struct Held {
    demand: Demand,
    stored: Option<Stored<Permits>>,
    written_at: Instant,
    /// When the permits are renewed, or given back.
    renew_at: Instant,
    /// When more permits are asked for; `None` if it has all, or nothing more waits.
    ask_at: Option<Instant>,
    /// Why the last attempt has failed.
    failure: Option<String>,
}

impl Held {
    fn next(&self) -> Instant {
        let ask_at = self.ask_at.unwrap_or(self.renew_at);
        self.renew_at.min(ask_at)
    }
}

/// Runs until the provider stops. Sends nothing while no activity has a limited key.
pub(crate) async fn run(services: Services) {
    let closing = services.store.tasks.closing();
    let runtime = uuid::Uuid::new_v4().to_string();
    let queue = services.activities().local();
    let wanted = queue.with(|queue, _| queue.permits_wanted());
    let mut held = HashMap::<Key, Held>::new();
    let (mut metrics, mut outage) = (KeyMetrics::default(), Outage::default());
    let mut report_at = None;
    loop {
        let next = held.values().map(Held::next).chain(report_at).min();
        let due = async {
            match next {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = closing.cancelled() => break,
            () = wanted.notified() => {}
            () = due => {}
        }
        round(&services, &runtime, &mut held).await;
        let mut failing = held
            .iter()
            .filter_map(|(key, held)| Some((key, held.failure.as_deref()?)));
        outage.note(failing.next());
        let now = Instant::now();
        if report_at.is_none_or(|at| at <= now) {
            let in_use = usage(&services);
            report_at = (!in_use.is_empty()).then(|| now + PERMITS_RENEWED);
            metrics.report(in_use);
        }
    }
    metrics.report([]);
    // Others need not wait for the end of the term. What still runs keeps its permits.
    stream::iter(held)
        .for_each_concurrent(CONCURRENCY, async |(key, held)| {
            let stored = held.stored;
            let _unconfirmed = write_in_time(&services, &runtime, &key, stored, false).await;
        })
        .await;
}

/// Returns what this process uses of each limited key.
fn usage(services: &Services) -> Vec<(Key, Usage)> {
    let queue = services.activities().local();
    let now = services.store.now();
    queue.with(|queue, at| {
        let demands = queue.demands(at).into_iter();
        let in_use = demands.map(|demand| {
            let since = due_since(queue.parked(&demand.cap.key));
            let usage = Usage {
                running: demand.running,
                waiting: demand.waiting,
                oldest: since.map(|since| now.since(since)).unwrap_or_default(),
            };
            (demand.cap.key, usage)
        });
        in_use.collect()
    })
}

/// Returns the time from which on the oldest of these activities has been due.
fn due_since<'a>(waiting: impl Iterator<Item = &'a KnownActivity>) -> Option<Timestamp> {
    let items = waiting.filter_map(KnownActivity::item);
    items.map(|item| item.visible_at).min()
}

/// Writes the permits of each key that is due.
async fn round(services: &Services, runtime: &str, held: &mut HashMap<Key, Held>) {
    let now = Instant::now();
    let demands = services.activities().local().demands();
    for demand in demands {
        let key = demand.cap.key.clone();
        let wants_more = |before: &Demand| {
            demand.waiting > 0 && demand.running + demand.waiting > before.running + before.waiting
        };
        match held.get_mut(&key) {
            None if demand.running == 0 && (demand.waiting == 0 || is_paused(&demand)) => {}
            None => {
                let new = Held {
                    demand,
                    stored: None,
                    written_at: now,
                    renew_at: now,
                    ask_at: None,
                    failure: None,
                };
                held.insert(key, new);
            }
            Some(known) => {
                if known.demand.cap != demand.cap {
                    known.renew_at = now;
                } else if !is_paused(&demand)
                    && known
                        .stored
                        .as_ref()
                        .is_some_and(|it| !is_alone(&it.document, runtime))
                    && wants_more(&known.demand)
                {
                    known.ask_at = Some((known.written_at + PERMITS_ASKED).max(now));
                }
                known.demand.cap = demand.cap;
            }
        }
    }
    let due: Vec<Key> = held
        .iter()
        .filter(|(_, held)| held.next() <= now)
        .map(|(key, _)| key.clone())
        .collect();
    let writes = due.into_iter().filter_map(|key| {
        let held = held.remove(&key)?;
        Some(async move { (key, renew(services, runtime, held).await) })
    });
    let written: Vec<_> = stream::iter(writes.collect::<Vec<_>>())
        .buffer_unordered(CONCURRENCY)
        .collect()
        .await;
    for (key, renewed) in written {
        if let Some(renewed) = renewed {
            held.insert(key, renewed);
        }
    }
}

/// Paused activities need no permits.
fn is_paused(demand: &Demand) -> bool {
    demand.cap.running == Some(0)
}

/// Renews the permits of a key, or gives them back if they are not needed any more.
async fn renew(services: &Services, runtime: &str, held: Held) -> Option<Held> {
    let Held { demand, stored, .. } = held;
    let key = demand.cap.key.clone();
    let now = Instant::now();
    let wants = !is_paused(&demand);
    let written = match write_in_time(services, runtime, &key, stored, wants).await {
        Ok(written) => written,
        Err(failure) => {
            return Some(Held {
                demand,
                stored: None,
                written_at: now,
                renew_at: now + PERMITS_ASKED,
                ask_at: None,
                failure: Some(failure),
            });
        }
    };
    let (cap, may_run) = (&written.demand.cap, written.may_run);
    let holder = own(&written.stored.document, runtime);
    let allowance = holder.map(|holder| Allowance {
        running: cap.running.map(|_| may_run),
        rate: cap.rate.map(|_| rate(holder)),
        until: services.store.local_time(holder.until - PERMITS_MARGIN),
    });
    let queue = services.activities().local();
    queue.with(|queue, now| queue.allow(&key, allowance, now));
    allowance?;
    Some(Held {
        demand: written.demand,
        stored: Some(written.stored),
        written_at: now,
        renew_at: now + PERMITS_RENEWED,
        ask_at: None,
        failure: None,
    })
}

/// What a write has stored.
struct Written {
    stored: Stored<Permits>,
    demand: Demand,
    may_run: u32,
}

/// Writes the permits of a key, unless its partition does not answer: the other keys wait no longer.
///
/// # Errors
/// Fails with the reason as text.
async fn write_in_time(
    services: &Services,
    runtime: &str,
    key: &Key,
    known: Option<Stored<Permits>>,
    wants: bool,
) -> Result<Written, String> {
    let partition = Permits::key_of(key).instance_id.into();
    let writing = Box::pin(write(services, runtime, key, known, wants));
    let writing = timeout(PERMITS_ANSWER, writing);
    match services
        .container()
        .while_answering(&partition, writing)
        .await
    {
        Ok(Ok(written)) => written.map_err(|error| error.to_string()),
        Ok(Err(_)) | Err(_) => Err("its partition does not answer".to_owned()),
    }
}

/// Writes this runtime's part of the permits. The version that only this runtime has written is
/// not read again. What the process may start is lowered before the write, and raised after it.
async fn write(
    services: &Services,
    runtime: &str,
    key: &Key,
    known: Option<Stored<Permits>>,
    wants: bool,
) -> Result<Written> {
    let container = services.container();
    let empty = Permits::new(key);
    let mut known = known.filter(|stored| is_alone(&stored.document, runtime));
    for _ in 0..MAX_ATTEMPTS {
        let stored = match known.take() {
            Some(stored) => Some(stored),
            None => container.latest_committed().read(&empty.key()).await?,
        };
        let now = services.store.now();
        let before = stored.as_ref().map_or(&empty, |stored| &stored.document);
        let (demand, division) = take_share(services, runtime, key, before, now, wants);
        let after = division.permits;
        let written = match &stored {
            // Keys that nothing uses leave no document behind.
            Some(stored) if after.holders.is_empty() => {
                let delete = container.run(empty.key().delete().if_match(&stored.etag));
                delete.await.map(|()| stored.etag.clone())
            }
            Some(stored) => {
                let replace = container.run(after.replace().if_match(&stored.etag));
                replace.await.map(|written| written.etag)
            }
            None => container
                .run(after.create())
                .await
                .map(|written| written.etag),
        };
        match written {
            Ok(etag) => {
                return Ok(Written {
                    stored: Stored {
                        id: empty.key().to_id()?,
                        document: after,
                        etag,
                        timestamp: now,
                    },
                    demand,
                    may_run: division.may_run,
                });
            }
            Err(error)
                if error.is_precondition_failed()
                    || error.is_conflict()
                    || error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Retryable(
        "other runtimes write them at the same time".to_owned(),
    ))
}

/// Divides the permits by what this process uses now, and lowers what it may start in the same
/// moment: what starts during the write is part of what is written.
fn take_share(
    services: &Services,
    runtime: &str,
    key: &Key,
    before: &Permits,
    now: Timestamp,
    wants: bool,
) -> (Demand, Division) {
    let queue = services.activities().local();
    queue.with(|queue, at| {
        let waiting_since = due_since(queue.parked(key)).filter(|_| wants);
        queue.lower(key, at, |demand| {
            let mut demand = demand.unwrap_or_else(|| Demand::nothing(key));
            if !wants {
                demand.waiting = 0;
            }
            let mut division = divide(before.clone(), runtime, &demand, now);
            let mut holders = division.permits.holders.iter_mut();
            if let Some(holder) = holders.find(|holder| holder.runtime == runtime) {
                holder.waiting_since = waiting_since;
            }
            let holder = own(&division.permits, runtime);
            let allowance = Allowance {
                running: Some(division.may_run),
                rate: Some(holder.map_or(0.0, rate)),
                until: at,
            };
            (allowance, (demand, division))
        })
    })
}
