//! From a hint to a locked turn.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cdb_model::{Query, Stored, Timestamp};
use duroxide::providers::{DispatcherCapabilityFilter, OrchestrationItem, ProviderError};

use super::load::{self, Loaded};
use super::lock;
use super::table::Turn;
use crate::documents::OrchestratorItem;
use crate::error::provider_error;
use crate::provider::Inner;
use crate::wait::Candidate;

const FETCH: &str = "fetch_orchestration_item";

/// How long an instance that another runtime holds is left alone. Its lock may end at any time, so not for long.
const AVOID_LOCKED: Duration = Duration::from_millis(100);
/// How long an instance is left alone that this runtime cannot work on: an incompatible version, messages that came
/// before their start, documents that cannot be read.
const AVOID_UNFIT: Duration = Duration::from_secs(1);

/// An instance that may have messages due.
#[derive(Clone, Debug)]
pub(crate) struct InstanceCandidate {
    pub(crate) instance_id: String,
    /// The execution that the message is for, so that its history can be read together with the instance.
    pub(crate) execution_id: Option<u64>,
}

impl Candidate for InstanceCandidate {
    type Key = String;

    fn key(&self) -> String {
        self.instance_id.clone()
    }
}

impl From<&OrchestratorItem> for InstanceCandidate {
    fn from(item: &OrchestratorItem) -> Self {
        Self {
            instance_id: item.instance_id.clone(),
            execution_id: item.execution_id,
        }
    }
}

/// How long a fetch without patience sleeps between two looks at a try that is still going on.
const UNDECIDED_PAUSE: Duration = Duration::from_millis(5);

/// Implements `Provider::fetch_orchestration_item`.
pub(crate) async fn fetch(
    inner: &Inner,
    lock_timeout: Duration,
    patience: Duration,
    filter: Option<&DispatcherCapabilityFilter>,
) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError> {
    let mut waiter = inner.orchestrations.wait(patience);
    while let Some(candidate) = waiter.next(|_| true, || poll(inner)).await? {
        let id = &candidate.instance_id;
        let mut claim = Claim::try_new(inner, id, lock_timeout, filter);
        // Who looks once wants to know. Another try in this process is no answer yet: it may be dropped.
        while claim.is_none() && patience.is_zero() && inner.turns.is_undecided(id) {
            tokio::time::sleep(UNDECIDED_PAUSE).await;
            claim = Claim::try_new(inner, id, lock_timeout, filter);
        }
        let Some(claim) = claim else {
            continue;
        };
        if let Some(fetched) = attempt(inner, &claim, &candidate, filter, lock_timeout).await? {
            claim.keep();
            return Ok(Some(fetched));
        }
    }
    Ok(None)
}

/// Asks every physical partition for its first due messages.
async fn poll(inner: &Inner) -> Result<Vec<InstanceCandidate>, ProviderError> {
    let slots = inner.leases.slots().await;
    let mut due = OrchestratorItem::VISIBLE_AT.le(inner.container.now());
    if !slots.is_all() {
        due = due & OrchestratorItem::DISPATCH_SLOT.is_in(slots.iter());
    }
    let query = Query::<OrchestratorItem>::across_partitions()
        .filter(due)
        .order_by(OrchestratorItem::BY_DUE.asc())
        .top(inner.orchestration_prefetch);
    let items: Vec<Stored<OrchestratorItem>> = inner
        .container
        .query(query)
        .all()
        .await
        .map_err(|error| provider_error(FETCH, &error))?;
    Ok(items.iter().map(|item| (&item.document).into()).collect())
}

/// Why a candidate was not worked on, and for how long it is not worth another look.
enum Unfit {
    /// Nothing due.
    Idle,
    /// Another runtime has it.
    Locked,
    /// Its execution is pinned to a version that this dispatcher does not support.
    Incompatible(u64),
    /// Nothing says yet which orchestration its messages are for.
    Early,
}

async fn attempt(
    inner: &Inner,
    claim: &Claim<'_>,
    candidate: &InstanceCandidate,
    filter: Option<&DispatcherCapabilityFilter>,
    lock_timeout: Duration,
) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError> {
    let instance_id = &candidate.instance_id;
    let loaded = match load::load(inner, candidate).await {
        Ok(loaded) => loaded,
        Err(error) => {
            // One unreadable instance must not keep its dispatcher from all others.
            tracing::error!(instance = %instance_id, %error, "instance cannot be loaded");
            claim.avoid(AVOID_UNFIT, None);
            return if error.is_retryable() {
                Err(error)
            } else {
                Ok(None)
            };
        }
    };
    match judge(inner, &loaded, filter).await? {
        None => {}
        Some(Unfit::Idle) => return Ok(None),
        Some(Unfit::Locked) => {
            claim.avoid(AVOID_LOCKED, None);
            return Ok(None);
        }
        Some(Unfit::Incompatible(pinned)) => {
            claim.avoid(AVOID_UNFIT, Some(pinned));
            return Ok(None);
        }
        Some(Unfit::Early) => {
            claim.avoid(AVOID_UNFIT, None);
            return Ok(None);
        }
    }
    let Some(loaded) = load::complete(inner, loaded).await? else {
        return Ok(None);
    };
    let Some(locked) = lock::lock(inner, &loaded, instance_id, lock_timeout).await? else {
        claim.avoid(AVOID_LOCKED, None);
        return Ok(None);
    };
    let turn = Turn {
        token: locked.token.clone(),
        claim: claim.number,
        instance: locked.instance,
        messages: loaded.messages.clone(),
        kv: loaded.kv.clone(),
        ended: false,
    };
    claim.lasts_until(turn.instance.document.locked_until.unwrap_or_default());
    let item = load::item(&turn.instance.document, &loaded);
    inner.turns.insert(turn);
    Ok(Some((item, locked.token, locked.attempt_count)))
}

/// Decides without a write whether this runtime can work on the instance now.
async fn judge(
    inner: &Inner,
    loaded: &Loaded,
    filter: Option<&DispatcherCapabilityFilter>,
) -> Result<Option<Unfit>, ProviderError> {
    if loaded.messages.is_empty() {
        return Ok(Some(Unfit::Idle));
    }
    let instance = loaded.instance.as_ref().map(|stored| &stored.document);
    if instance.is_some_and(|instance| instance.is_locked(inner.container.now())) {
        return Ok(Some(Unfit::Locked));
    }
    // The filter comes before the lock and before any event is read: an incompatible execution may hold events that
    // this version does not know (provider guide, "Capability Filtering Contract").
    // An execution without a pinned version fits every dispatcher that supports anything at all.
    let pinned = instance.and_then(|instance| instance.pinned_duroxide_version_packed);
    match pinned {
        Some(pinned) if !supports(filter, pinned) => return Ok(Some(Unfit::Incompatible(pinned))),
        None if filter.is_some_and(|filter| filter.supported_duroxide_versions.is_empty()) => {
            return Ok(Some(Unfit::Idle));
        }
        _ => {}
    }
    if loaded.has_context() {
        return Ok(None);
    }
    if loaded.only_queue_messages() {
        load::drop_orphans(inner, loaded).await?;
        return Ok(Some(Unfit::Idle));
    }
    Ok(Some(Unfit::Early))
}

/// Whether a dispatcher can work on executions pinned to this version. Of several ranges duroxide uses the first
/// (its suite: `fetch_single_range_only_uses_first_range`).
fn supports(filter: Option<&DispatcherCapabilityFilter>, pinned: u64) -> bool {
    filter.is_none_or(|filter| {
        let first = filter.supported_duroxide_versions.first();
        first.is_some_and(|range| range.contains(&unpack_version(pinned)))
    })
}

/// The stored form of a pinned version: one number, ordered like the versions while their parts stay below 1000.
pub(super) fn pack_version(version: &semver::Version) -> u64 {
    version.major * 1_000_000 + version.minor * 1_000 + version.patch
}

fn unpack_version(packed: u64) -> semver::Version {
    semver::Version::new(packed / 1_000_000, packed / 1_000 % 1_000, packed % 1_000)
}

/// The right of one dispatcher to try an instance. Given back on drop, unless the lock was won.
struct Claim<'a> {
    inner: &'a Inner,
    instance_id: String,
    number: u64,
    kept: bool,
}

impl<'a> Claim<'a> {
    fn try_new(
        inner: &'a Inner,
        instance_id: &str,
        lock_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Option<Self> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let now = inner.container.now();
        inner
            .turns
            .claim(instance_id, (now, now + lock_timeout), number, |pinned| {
                supports(filter, pinned)
            })
            .then(|| Self {
                inner,
                instance_id: instance_id.to_owned(),
                number,
                kept: false,
            })
    }

    fn avoid(&self, duration: Duration, pinned: Option<u64>) {
        let now = self.inner.container.now();
        self.inner
            .turns
            .avoid(&self.instance_id, (now, now + duration), pinned);
        self.inner.hint_instance(&self.instance_id, None, duration);
    }

    fn lasts_until(&self, until: Timestamp) {
        self.inner
            .turns
            .extend(&self.instance_id, self.number, until);
    }

    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.inner.release_instance(&self.instance_id, self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_survive_packing() {
        let version = semver::Version::new(0, 1, 32);
        assert_eq!(pack_version(&version), 1_032);
        assert_eq!(unpack_version(1_032), version);
    }
}
