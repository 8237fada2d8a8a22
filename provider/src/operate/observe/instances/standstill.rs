//! What the running instances of a list wait for.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::super::keys;
use super::super::sample::{self, Container};
use super::row::ObservedInstance;
use super::span::SpanKind;
use super::wait;
use super::waits_for::{WaitKind, WaitsFor};
use crate::error::Result;
use crate::operate::limits::rules;
use crate::stored::Store;
use crate::stored::documents::{Instance, OrchestratorItem, WorkerItem};
use crate::timing::UNSERVED;

/// The number of oldest due messages and activities that are read.
const SAMPLE: u32 = 200;

/// The number of instances whose histories are read.
const MOST_READ: usize = 50;

/// The number of history documents above which a history is not read: a list must stay cheap.
const MOST_DOCUMENTS: u64 = 4;

/// The number of concurrent reads.
const CONCURRENT: usize = 16;

/// The instances with due work that no process has fetched.
struct Unserved {
    messages: BTreeSet<String>,
    /// The limit that the oldest activity of an instance waits for; `None` if some wait for no limit.
    activities: BTreeMap<String, Option<String>>,
}

/// Returns what each instance waits for; `None` for one that has ended, that is not among the first 50 running ones, or
/// whose history is long, of unknown length or damaged.
pub(super) async fn of(store: &Store, instances: &[Instance]) -> Result<Vec<Option<WaitsFor>>> {
    let running = instances.iter().filter(|instance| instance.has_more());
    let running: BTreeSet<&str> = running
        .take(MOST_READ)
        .map(|instance| &*instance.instance_id)
        .collect();
    if running.is_empty() {
        return Ok(vec![None; instances.len()]);
    }
    let unserved = &Unserved::read(&store.container).await?;
    let running = &running;
    let reads = instances.iter().map(|instance| async move {
        if !running.contains(&*instance.instance_id) {
            return Ok(None);
        }
        wait(store, instance, unserved).await
    });
    // Collected, because a stream of borrowing closures is not `Send`.
    let reads: Vec<_> = reads.collect();
    stream::iter(reads).buffered(CONCURRENT).try_collect().await
}

async fn wait(store: &Store, instance: &Instance, unserved: &Unserved) -> Result<Option<WaitsFor>> {
    if instance.paused.is_some() {
        return Ok(Some(WaitsFor::of(WaitKind::Paused)));
    }
    if instance.held.is_some() {
        return Ok(Some(WaitsFor::of(WaitKind::Held)));
    }
    if sample::lock_end(instance, store.container.now()).is_some() {
        return Ok(Some(WaitsFor::of(WaitKind::Busy)));
    }
    if unserved.messages.contains(&instance.instance_id) && instance.untaken_events.is_none() {
        return Ok(Some(WaitsFor::of(WaitKind::Runtime)));
    }
    let documents = instance.history_documents;
    if documents.is_none_or(|count| count > MOST_DOCUMENTS) {
        return Ok(None);
    }
    let open = match wait::awaited(store, &ObservedInstance::of(instance.clone())).await {
        Err(error) if error.is_retryable() => return Err(error),
        // The answers about the instance alone say why its history cannot be read.
        Err(_) => return Ok(None),
        Ok(awaited) => awaited.waits,
    };
    let others = open.len().saturating_sub(1);
    let activities = unserved.activities.get(&instance.instance_id);
    Ok(open.into_iter().next().map(|first| {
        let activities = activities.filter(|_| first.kind == SpanKind::Activity);
        WaitsFor {
            kind: match first.kind {
                SpanKind::Timer => WaitKind::Timer,
                SpanKind::Event if first.is_queue => WaitKind::Queue,
                SpanKind::Event => WaitKind::Event,
                SpanKind::SubOrchestration => WaitKind::SubOrchestration,
                SpanKind::Activity | SpanKind::Turn => match activities {
                    Some(Some(_)) => WaitKind::Limit,
                    Some(None) => WaitKind::Worker,
                    None => WaitKind::Activity,
                },
            },
            limit: activities.cloned().flatten(),
            name: Some(first.name).filter(|name| !name.is_empty() && first.due_at.is_none()),
            due_at: first.due_at,
            others,
        }
    }))
}

impl Unserved {
    async fn read(container: &Container) -> Result<Self> {
        let before = container.now() - UNSERVED;
        let messages = sample::due_messages(before).limit(SAMPLE);
        let messages = messages.values(OrchestratorItem::INSTANCE_ID);
        let (messages, activities) = futures::try_join!(
            container.query(messages).all(),
            sample::activities(container, sample::due_activities(before), SAMPLE),
        )?;
        Ok(Self {
            messages: messages.into_iter().collect(),
            activities: limited(container, activities.items).await?,
        })
    }
}

/// Returns the instances of due activities, each with the limit that its oldest one waits for, or without one if some
/// of them wait for no limit.
async fn limited(
    container: &Container,
    activities: Vec<WorkerItem>,
) -> Result<BTreeMap<String, Option<String>>> {
    let rules = match &*activities {
        [] => None,
        _ => rules::read(container).await?,
    };
    let keys = match rules {
        None => vec![Vec::new(); activities.len()],
        Some(rules) => keys::used_up(container, &rules.document, &activities).await?,
    };
    let mut found = BTreeMap::<String, Option<String>>::new();
    for (item, keys) in activities.into_iter().zip(keys) {
        let limit = keys.into_iter().next().map(|limit| limit.key);
        let is_limited = limit.is_some();
        let known = found.entry(item.instance_id).or_insert(limit);
        if !is_limited {
            *known = None;
        }
    }
    Ok(found)
}
