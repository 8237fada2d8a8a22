//! Instances whose start is queued: no runtime has begun them, or none has their orchestration registered.
//!
//! A runtime that does not know the orchestration holds the instance for runtimes that do. With
//! `OnNondeterminism::Fail`, duroxide gives the start back, hides it for at most a minute, and fails the instance
//! after ten attempts (`UnregisteredBackoffConfig`).
//!
//! The store does not say which instances a limit of labels selects: only programs know the labels that they derive
//! from ids. A start that no runtime has fetched may wait for such a limit if a runtime is alive. Runtimes renew a
//! lease while the container has limits of what runs.

use std::collections::BTreeSet;

use cdb_client::Result;
use cdb_model::{Query, Timestamp};
use duroxide::providers::WorkItem;
use serde::Serialize;

use super::sample::{self, Container, Instances};
use crate::operate::limits::rules;
use crate::stored::documents::{Instance, Limits, OrchestratorItem, Rule, RuntimeLease};
use crate::timing::{HIDDEN_START, UNSERVED};

/// The number of oldest messages whose instances are read.
const SAMPLE: u32 = 200;

/// The most leases that are read. The service deletes old ones.
const MAX_LEASES: u32 = 1_000;

/// An instance whose start is queued.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Unstarted {
    /// The id of the instance.
    pub id: String,
    /// The orchestration that it starts.
    pub orchestration: String,
    /// The version that the start names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How often a runtime has fetched the start.
    pub attempts: u32,
    /// The selectors of the limits that may keep it from beginning.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
    /// Why it has not begun.
    #[serde(skip)]
    pub state: StartState,
}

/// Why an instance has not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartState {
    /// A runtime has it at the moment, or its start was queued so recently that an idle one has not looked.
    Recent,
    /// No runtime has fetched its start.
    Unfetched,
    /// No runtime has fetched its start, for which [limits](Unstarted::limits) may be the reason.
    Limited,
    /// Runtimes have fetched its start, and do not know the orchestration.
    Unknown,
}

impl Unstarted {
    /// Returns the name and version that a runtime must know.
    pub fn required_type(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {version}", self.orchestration),
            None => self.orchestration.clone(),
        }
    }
}

/// Reads the instances of the oldest queued starts.
pub(super) async fn read(container: &Container) -> Result<Vec<Unstarted>> {
    let limits = rules::read(container).await?;
    let limits = limits.as_ref().map(|stored| &stored.document);
    read_with(container, limits).await
}

/// As [`read`], with the limits of the container.
pub(super) async fn read_with(
    container: &Container,
    limits: Option<&Limits>,
) -> Result<Vec<Unstarted>> {
    let now = container.now();
    let messages = sample::messages(container, now + HIDDEN_START, SAMPLE).await?;
    among(container, &messages.items, limits, now).await
}

/// Reads the instances whose starts are among messages that are due until [`HIDDEN_START`] from now, in their order.
pub(super) async fn among(
    container: &Container,
    messages: &[OrchestratorItem],
    limits: Option<&Limits>,
    now: Timestamp,
) -> Result<Vec<Unstarted>> {
    let (pauses, instances) = futures::try_join!(
        pauses(container, limits),
        sample::instances(container, ids(messages)),
    )?;
    Ok(of(messages, &instances, &pauses, now))
}

/// Returns the instances whose starts are among the oldest messages.
pub(super) fn ids(messages: &[OrchestratorItem]) -> BTreeSet<String> {
    starts(messages).map(|(start, _)| start.id).collect()
}

/// Returns whether limits may keep new instances from beginning.
pub(super) fn may_wait(limits: Option<&Limits>) -> bool {
    limits.is_some_and(|limits| limits.rules.iter().any(Rule::keeps_from_beginning))
}

/// Returns the selectors of the limits that may keep new instances from beginning. None if no runtime is alive: then
/// instances wait for a runtime.
pub(super) async fn pauses(container: &Container, limits: Option<&Limits>) -> Result<Vec<String>> {
    let rules = limits.map_or(&[][..], |limits| &limits.rules);
    let pauses = rules.iter().filter(|rule| rule.keeps_from_beginning());
    let pauses: Vec<_> = pauses.map(|rule| rule.select.to_string()).collect();
    if pauses.is_empty() || !has_runtime(container).await? {
        return Ok(Vec::new());
    }
    Ok(pauses)
}

async fn has_runtime(container: &Container) -> Result<bool> {
    let leases = Query::<RuntimeLease>::across_partitions().limit(MAX_LEASES);
    let leases = container.query(leases).all().await?;
    let now = container.now();
    let mut leases = leases.iter().map(|stored| &stored.document);
    Ok(leases.any(|lease| !lease.is_dead && lease.until > now))
}

/// Returns the instances that have not begun, of the starts among messages.
pub(super) fn of(
    messages: &[OrchestratorItem],
    instances: &Instances,
    pauses: &[String],
    now: Timestamp,
) -> Vec<Unstarted> {
    let starts = starts(messages).filter_map(|(start, due_at)| {
        let instance = instances.get(&start.id);
        let is_recent = due_at + UNSERVED > now;
        start.with(instance, is_recent, pauses, now)
    });
    starts.collect()
}

fn starts(messages: &[OrchestratorItem]) -> impl Iterator<Item = (Unstarted, Timestamp)> {
    let oldest = messages.iter().take(SAMPLE as usize);
    oldest.filter_map(|message| Some((Unstarted::of(message)?, message.visible_at)))
}

impl Unstarted {
    /// Returns the instance that a message starts; `None` for any other message.
    pub(super) fn of(message: &OrchestratorItem) -> Option<Self> {
        match serde_json::from_str(message.work_item.header()).ok()? {
            WorkItem::StartOrchestration {
                instance,
                orchestration,
                version,
                ..
            } => Some(Self {
                id: instance,
                orchestration,
                version,
                attempts: 0,
                limits: Vec::new(),
                state: StartState::Unfetched,
            }),
            _ => None,
        }
    }

    /// Adds what its document says; `None` if it has begun.
    fn with(
        self,
        instance: Option<&Instance>,
        is_recent: bool,
        pauses: &[String],
        now: Timestamp,
    ) -> Option<Self> {
        if instance.is_some_and(Instance::is_created) {
            return None;
        }
        let attempts = instance.map_or(0, most_attempts);
        let is_held = instance.is_some_and(|instance| instance.held.is_some());
        let is_locked = instance.is_some_and(|instance| sample::lock_end(instance, now).is_some());
        // A pause of the instance is a reason that is known.
        let is_paused = instance.is_some_and(|instance| instance.paused.is_some());
        let is_fetched = attempts > 0 || is_held;
        let state = if is_locked || (!is_fetched && is_recent) {
            StartState::Recent
        } else if is_fetched {
            StartState::Unknown
        } else if pauses.is_empty() || is_paused {
            StartState::Unfetched
        } else {
            StartState::Limited
        };
        let limits = match state {
            StartState::Limited => pauses.to_vec(),
            _ => Vec::new(),
        };
        Some(Self {
            attempts,
            limits,
            state,
            ..self
        })
    }
}

/// Returns how often the message of an instance was fetched that was fetched most.
pub(super) fn most_attempts(instance: &Instance) -> u32 {
    let attempts = instance.attempts.values().copied();
    attempts.max().unwrap_or_default()
}
