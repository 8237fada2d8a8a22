//! The permits of this process: obtained while activities with a limited key wait or run, renewed,
//! and given back.

use std::collections::HashMap;

use cdb_model::{Document as _, DocumentKey as _, Stored};
use futures::StreamExt as _;
use futures::stream;
use tokio::time::{Instant, timeout};

use super::share::{divide, own, rate};
use crate::error::{Error, Result};
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
    loop {
        let next = held.values().map(Held::next).min();
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
    }
    // Others need not wait for the end of the term. What still runs keeps its permits.
    let demands = queue.demands();
    held.retain(|key, _| {
        let mut demands = demands.iter();
        demands.all(|demand| demand.cap.key != *key || demand.running == 0)
    });
    for held in held.values_mut() {
        (held.demand.running, held.demand.waiting) = (0, 0);
    }
    stream::iter(held.into_values())
        .for_each_concurrent(CONCURRENCY, async |held| {
            if let Err(error) = write(&services, &runtime, &held.demand, held.stored).await {
                tracing::debug!(%error, "permits were not given back; they will expire");
            }
        })
        .await;
}

/// Writes the permits of each key that is due.
async fn round(services: &Services, runtime: &str, held: &mut HashMap<Key, Held>) {
    let now = Instant::now();
    let demands = services.activities().local().demands();
    // What is not in use any more is given back.
    for known in held.values_mut() {
        if demands
            .iter()
            .all(|demand| demand.cap.key != known.demand.cap.key)
        {
            (known.demand.running, known.demand.waiting) = (0, 0);
        }
    }
    for mut demand in demands {
        if demand.cap.running == Some(0) {
            // Paused activities need no permits.
            demand.waiting = 0;
        }
        let key = demand.cap.key.clone();
        let wants_more = |before: &Demand| {
            demand.waiting > 0 && demand.running + demand.waiting > before.running + before.waiting
        };
        match held.get_mut(&key) {
            None if demand.running + demand.waiting == 0 => {}
            None => {
                let new = Held {
                    demand,
                    stored: None,
                    written_at: now,
                    renew_at: now,
                    ask_at: None,
                };
                held.insert(key, new);
            }
            Some(known) => {
                if known.demand.cap != demand.cap {
                    known.renew_at = now;
                } else if !has_all(known, runtime) && wants_more(&known.demand) {
                    known.ask_at = Some((known.written_at + PERMITS_ASKED).max(now));
                }
                if known.next() <= now {
                    known.demand = demand;
                }
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

/// Returns whether no other runtime has permits of the key.
fn has_all(held: &Held, runtime: &str) -> bool {
    let holders = held
        .stored
        .iter()
        .flat_map(|stored| &stored.document.holders);
    holders.into_iter().all(|holder| holder.runtime == runtime)
}

/// Renews the permits of a key, or gives them back if they are not needed any more.
async fn renew(services: &Services, runtime: &str, held: Held) -> Option<Held> {
    let Held { demand, stored, .. } = held;
    let key = demand.cap.key.clone();
    let queue = services.activities().local();
    let now = Instant::now();
    let partition = Permits::key_of(&key).instance_id.into();
    let writing = timeout(PERMITS_ANSWER, write(services, runtime, &demand, stored));
    // The other keys do not wait for a partition that does not answer.
    let answered = services.container().while_answering(&partition, writing);
    let answer = match answered.await {
        Ok(Ok(Ok(written))) => Ok(written),
        Ok(Ok(Err(error))) => Err(error.to_string()),
        Ok(Err(_)) | Err(_) => Err("its partition does not answer".to_owned()),
    };
    let written = match answer {
        Ok(written) => written,
        Err(error) => {
            tracing::warn!(%key, error, "cannot renew the permits of a limit");
            return Some(Held {
                demand,
                stored: None,
                written_at: now,
                renew_at: now + PERMITS_ASKED,
                ask_at: None,
            });
        }
    };
    let holder = own(&written.document, runtime);
    let allowance = holder.map(|holder| Allowance {
        running: demand.cap.running.map(|_| holder.running),
        rate: demand.cap.rate.map(|_| rate(holder)),
        until: services.store.local_time(holder.until - PERMITS_MARGIN),
    });
    queue.with(|queue, now| queue.allow(&key, allowance, now));
    allowance?;
    Some(Held {
        demand,
        stored: Some(written),
        written_at: now,
        renew_at: now + PERMITS_RENEWED,
        ask_at: None,
    })
}

/// Writes this runtime's part of the permits. The version that only this runtime has written is
/// not read again.
async fn write(
    services: &Services,
    runtime: &str,
    demand: &Demand,
    known: Option<Stored<Permits>>,
) -> Result<Stored<Permits>> {
    let container = services.container();
    let empty = Permits::new(&demand.cap.key);
    let is_own = |permits: &Permits| {
        let mut holders = permits.holders.iter();
        holders.all(|holder| holder.runtime == runtime)
    };
    let mut known = known.filter(|stored| is_own(&stored.document));
    for _ in 0..MAX_ATTEMPTS {
        let stored = match known.take() {
            Some(stored) => Some(stored),
            None => container.latest_committed().read(&empty.key()).await?,
        };
        let now = services.store.now();
        let before = stored.as_ref().map_or(&empty, |stored| &stored.document);
        let after = divide(before.clone(), runtime, demand, now);
        let written = match &stored {
            Some(stored) => container.run(after.replace().if_match(&stored.etag)).await,
            None => container.run(after.create()).await,
        };
        match written {
            Ok(written) => {
                return Ok(Stored {
                    id: empty.key().to_id()?,
                    document: after,
                    etag: written.etag,
                    timestamp: now,
                });
            }
            Err(error)
                if error.is_precondition_failed()
                    || error.is_conflict()
                    || error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Retryable(format!(
        "other runtimes write the permits of `{}` at the same time",
        demand.cap.key
    )))
}
