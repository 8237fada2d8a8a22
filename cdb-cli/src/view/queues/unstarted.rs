//! Instances whose start is queued: no runtime has begun them, or none has their orchestration
//! registered.
//!
//! A runtime that does not know the orchestration holds the instance for runtimes that do. With
//! `OnNondeterminism::Fail`, duroxide gives the start back, hides it for at most a minute, and fails
//! the instance after ten attempts (`UnregisteredBackoffConfig`).

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use cdb_model::Query;
use cdb_provider::documents::{FIRST_DUE, InstanceKey, OrchestratorItem};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::Serialize;

use crate::container::lock::locked_until;
use crate::container::work_item::Start;
use crate::container::{Orchestrations, begin_pauses};
use crate::exit::Failure;
use crate::output::short;

/// The longest delay of a message whose orchestration is unknown.
pub(crate) const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// A start that was queued more recently is not worth a remark: idle runtimes poll every 1.25 s.
const RECENT: Duration = Duration::from_secs(5);

/// The number of oldest messages that are read.
const SAMPLE: u32 = 200;

/// The number of concurrent reads.
const CONCURRENT: usize = 16;

/// An instance whose start is queued.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Unstarted {
    pub id: String,
    pub orchestration: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How often a runtime has fetched the start.
    pub attempts: u32,
    /// The limits that may keep it from beginning.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
    /// Whether a runtime that does not know the orchestration holds the instance for others.
    #[serde(skip)]
    is_held: bool,
    /// The name and version that a runtime must know.
    #[serde(skip)]
    required_type: String,
    /// Whether a runtime has it at the moment, or can have it soon.
    #[serde(skip)]
    is_moving: bool,
}

/// The instances whose start is queued, by the reason why they wait.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    /// By orchestration and version: runtimes have fetched and abandoned them.
    pub unknown: BTreeMap<String, Vec<Unstarted>>,
    /// No runtime has fetched them.
    pub unfetched: Vec<Unstarted>,
    /// No runtime has fetched them, which limits may be the reason for.
    pub limited: Vec<Unstarted>,
}

/// Reads the instances of the oldest queued starts.
pub(crate) async fn read(orchestrations: &Orchestrations) -> Result<Vec<Unstarted>, Failure> {
    let container = &orchestrations.container;
    let now = container.now();
    let starts = Query::<OrchestratorItem>::across_partitions()
        .filter(OrchestratorItem::VISIBLE_AT.between(FIRST_DUE, now + MAX_BACKOFF))
        .order_by(OrchestratorItem::BY_DUE)
        .limit(SAMPLE);
    let found = container.query(starts).all().await?.into_iter();
    let limits = &begin_pauses::read(&orchestrations.provider, &orchestrations.container).await?;
    let starts = found.filter_map(|stored| {
        let is_moving = stored.document.visible_at + RECENT > now;
        let start = Start::of(stored.document.work_item.header())?;
        Some(Unstarted::of(start, is_moving))
    });
    stream::iter(starts)
        .map(|start| async move {
            let stored = container.read(&InstanceKey::new(&*start.id)).await?;
            let Some(instance) = stored.map(|stored| stored.document) else {
                return Ok(Some(start.limited_by(limits)));
            };
            let attempts = instance.attempts.values().copied().max();
            let attempts = attempts.unwrap_or_default();
            let is_locked = locked_until(&instance, now).is_some();
            let is_held = instance.held.is_some();
            if instance.is_created() {
                return Ok(None);
            }
            let start = Unstarted {
                attempts,
                is_held,
                is_moving: is_locked || (attempts == 0 && !is_held && start.is_moving),
                ..start
            };
            // A pause of the instance is the reason that is known.
            Ok(Some(match instance.paused {
                None => start.limited_by(limits),
                Some(_) => start,
            }))
        })
        .buffered(CONCURRENT)
        .try_filter_map(|found| async move { Ok(found) })
        .try_collect()
        .await
}

impl Unstarted {
    fn of(start: Start, is_moving: bool) -> Self {
        Self {
            required_type: start.required_type(),
            id: start.instance,
            orchestration: start.orchestration,
            version: start.version,
            attempts: 0,
            limits: Vec::new(),
            is_held: false,
            is_moving,
        }
    }

    /// Adds the limits that may keep it from beginning, unless a runtime has fetched the start.
    fn limited_by(mut self, limits: &[String]) -> Self {
        if self.is_unfetched() && !self.is_moving {
            self.limits = limits.to_vec();
        }
        self
    }

    fn is_unfetched(&self) -> bool {
        self.attempts == 0 && !self.is_held
    }
}

impl Waiting {
    pub(crate) fn of(unstarted: &[Unstarted]) -> Self {
        let mut waiting = Self::default();
        for start in unstarted.iter().filter(|start| !start.is_moving) {
            if !start.limits.is_empty() {
                waiting.limited.push(start.clone());
            } else if start.is_unfetched() {
                waiting.unfetched.push(start.clone());
            } else {
                let same = waiting
                    .unknown
                    .entry(start.required_type.clone())
                    .or_default();
                same.push(start.clone());
            }
        }
        // The order of the queue changes with each attempt.
        let groups = waiting.unknown.values_mut();
        groups.for_each(|group| group.sort_by(|a, b| a.id.cmp(&b.id)));
        waiting
    }
}

/// Names the first of some instances, and counts the others.
pub(crate) fn named(instances: &[Unstarted]) -> String {
    match instances {
        [] => String::new(),
        [one] => format!("`{}`", short(&one.id, 120)),
        [first, rest @ ..] => format!("`{}` and {} more", short(&first.id, 120), rest.len()),
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (required_type, instances) in &self.unknown {
            let required_type = short(required_type, 80);
            writeln!(
                f,
                "waiting for a runtime that knows {required_type}: {}",
                named(instances)
            )?;
        }
        match &*self.unfetched {
            [] => {}
            some => writeln!(f, "waiting for a runtime: {}", named(some))?,
        }
        match &*self.limited {
            [] => Ok(()),
            some @ [first, ..] => {
                let limits = begin_pauses::described(&first.limits);
                writeln!(f, "not begun: {}; {limits}", named(some))
            }
        }
    }
}
