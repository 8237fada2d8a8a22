//! From a hint to a locked turn.

use std::hash::BuildHasher;
use std::time::Duration;

use cdb_coordination::Lockable;
use cdb_model::{Query, Stored, Unreadable};
use duroxide::providers::DispatcherCapabilityFilter;
use tokio::time::Instant;

use super::ahead;
use super::avoided::Outlook;
use super::begin::{self, Fetched};
use super::claim::{Claim, Wish};
use super::load::{self, Loaded};
use super::lock;
use super::mail::Message;
use super::orphans;
use super::refusal::Refusal;
use super::table::Turn;
use crate::documents::{OrchestratorItem, Salvage, dispatch_slot};
use crate::error::Result;
use crate::provider::Inner;
use crate::wait::{Candidate, Queue, Seen};

/// How long an instance that another runtime holds is left alone. Its lock may end at any time, so not for long.
const AVOID_LOCKED: Duration = Duration::from_millis(100);
/// How long an instance is left alone about which the service did not answer.
const AVOID_UNHEARD: Duration = Duration::from_secs(1);

/// An instance that may have messages due.
#[derive(Clone, Debug)]
pub(crate) struct InstanceCandidate {
    pub(crate) instance_id: String,
    /// The execution that the message is for, so that its history can be read together with the instance.
    pub(crate) execution_id: Option<u64>,
    /// Whether the messages are known; otherwise its partition must be searched.
    pub(crate) known: bool,
    /// Found by a poll, as other runtimes find it too.
    pub(crate) polled: bool,
}

impl InstanceCandidate {
    fn wish(&self) -> Wish {
        if self.known {
            Wish::Known
        } else {
            Wish::Search
        }
    }
}

impl Candidate for InstanceCandidate {
    type Key = (String, bool);

    fn key(&self) -> Self::Key {
        (self.instance_id.clone(), self.known)
    }

    fn is_polled(&self) -> bool {
        self.polled
    }
}

/// How long a fetch without patience sleeps between two looks at a try that is still going on.
const UNDECIDED_PAUSE: Duration = Duration::from_millis(5);

/// What one dispatcher asks for.
#[derive(Clone, Copy)]
struct Ask<'a> {
    lock_timeout: Duration,
    filter: Option<&'a DispatcherCapabilityFilter>,
    /// It waits for work: a runtime's dispatcher, not somebody who looks once.
    patient: bool,
}

/// Implements `Provider::fetch_orchestration_item`.
pub(crate) async fn fetch(
    inner: &Inner,
    lock_timeout: Duration,
    patience: Duration,
    filter: Option<&DispatcherCapabilityFilter>,
) -> Result<Option<Fetched>> {
    let ask = Ask {
        lock_timeout,
        filter,
        patient: !patience.is_zero(),
    };
    if ask.patient {
        inner.turns.note_lock_timeout(lock_timeout);
    }
    let mut waiter = inner.orchestrations.wait(patience);
    while let Some(candidate) = waiter
        .next(|_| true, || poll(inner), || poll_in_background(inner))
        .await?
    {
        let id = &candidate.instance_id;
        if let Some(turn) = inner.turns.take_ahead(id) {
            match ahead::begin(inner, turn, filter, lock_timeout).await? {
                Some(fetched) => return Ok(Some(fetched)),
                None => continue,
            }
        }
        let claim = || Claim::try_new(inner, id, lock_timeout, filter, candidate.wish());
        let mut claimed = claim();
        // Who looks once wants to know. Another try in this process is no answer yet: it may be dropped.
        while claimed.is_none() && !ask.patient && inner.turns.is_undecided(id) {
            tokio::time::sleep(UNDECIDED_PAUSE).await;
            claimed = claim();
        }
        let Some(claim) = claimed else {
            continue;
        };
        match attempt(inner, &claim, &candidate, ask).await {
            Ok(Some(turn)) => {
                claim.lasts_until(turn.instance.document.locked_until.unwrap_or_default());
                claim.keep();
                return begin::begin(inner, turn).await.map(Some);
            }
            Ok(None) => {}
            Err(error) if error.is_retryable() => {
                claim.avoid(AVOID_UNHEARD);
                return Err(error);
            }
            // One instance must not keep its dispatcher from all others.
            Err(error) => {
                tracing::error!(instance = %id, %error, "an instance cannot be worked on");
                claim.avoid_unfit(inner.container.now(), None);
            }
        }
    }
    Ok(None)
}

/// A poll that no dispatcher waits for: all of them see what it finds, and those at work are not kept.
fn poll_in_background(inner: &Inner) {
    if inner.background.is_closing() {
        return;
    }
    inner.spawn(|inner| async move {
        let polling = inner.orchestrations.polling();
        match inner
            .watch
            .unless_quiet(&inner, polling.interval(), poll(&inner))
            .await
        {
            Ok(found) => polling.finish(found),
            Err(error) => tracing::warn!(%error, "the orchestrator queue cannot be polled"),
        }
    });
}

/// Asks every physical partition for its first due messages.
async fn poll(inner: &Inner) -> Result<Vec<InstanceCandidate>> {
    let reach = inner.share.of_poll(Queue::Orchestrations).await;
    if reach.is_nothing() {
        return Ok(Vec::new());
    }
    let (visible_at, slot) = (
        OrchestratorItem::VISIBLE_AT,
        OrchestratorItem::DISPATCH_SLOT,
    );
    let depth = &inner.depths.orchestrations;
    let look = depth.look(inner.orchestration_prefetch);
    let due = reach.due(visible_at, slot, (look.from, inner.container.now()));
    let query = Query::<OrchestratorItem>::across_partitions()
        .filter(due)
        .order_by(OrchestratorItem::BY_DUE.asc())
        .top(look.rows);
    let asked_at = Instant::now();
    let rows = inner.container.query(query).row_by_row().all().await?;
    let mut candidates = Vec::with_capacity(rows.len());
    let mut seen = Seen::of(&rows, OrchestratorItem::VISIBLE_AT, |item| item.visible_at);
    for row in rows {
        let (candidate, outlook) = found(inner, row, asked_at);
        seen.in_vain += usize::from(outlook != Outlook::Work);
        candidates.extend(candidate);
    }
    depth.note(look, seen);
    // Runtimes find the same messages, and race for the same locks if they begin with the same. So each begins with
    // the instances that it remembers, and goes through the others in an order of its own, those of its slots first, and
    // last those that it has looked at in vain.
    candidates.sort_by_cached_key(|candidate| {
        let id = &candidate.instance_id;
        let is_foreign = !reach.is_own(dispatch_slot(id));
        (
            inner.turns.was_unfit(id),
            inner.memory.get(id).is_none(),
            is_foreign,
            inner.scatter.hash_one(id),
        )
    });
    Ok(candidates)
}

/// What a poll makes of one due message.
fn found(
    inner: &Inner,
    row: Result<Stored<OrchestratorItem>, Unreadable>,
    asked_at: Instant,
) -> (Option<InstanceCandidate>, Outlook) {
    let salvaged = row.or_else(|found| {
        inner.damage.tell(&found);
        // Nobody's: it stays where it is, and is looked past.
        OrchestratorItem::salvage_stored(&found).ok_or(())
    });
    let Ok(stored) = salvaged else {
        return (None, Outlook::Nothing);
    };
    let message = &stored.document;
    let instance_id = message.instance_id.clone();
    let now = inner.container.now();
    let outlook = inner.turns.outlook(&instance_id, message.visible_at, now);
    if outlook == Outlook::Nothing {
        return (None, outlook);
    }
    let candidate = InstanceCandidate {
        instance_id,
        execution_id: message.execution_id,
        known: true,
        polled: true,
    };
    inner.mail.note(Message::read(stored, asked_at));
    (Some(candidate), outlook)
}

/// From a claim to a lock, by what is known if that is enough, by a load of the partition if not.
async fn attempt(
    inner: &Inner,
    claim: &Claim<'_>,
    candidate: &InstanceCandidate,
    ask: Ask<'_>,
) -> Result<Option<Turn>> {
    let instance_id = &candidate.instance_id;
    let remembered = inner.memory.get(instance_id);
    let read_at = remembered.as_ref().and_then(|known| known.past.read_at);
    let known = inner.mail.due(instance_id, inner.container.now(), read_at);
    if candidate.known && known.is_empty() {
        // They were part of an earlier turn.
        return Ok(None);
    }
    let expected = match remembered {
        Some(remembered) => Some(Loaded::remembered(&remembered, known)),
        None if load::starts(&known) && !inner.turns.is_born(instance_id) => {
            Some(Loaded::unborn(instance_id, known))
        }
        None => None,
    };
    if let Some(expected) = expected.filter(|_| candidate.known) {
        if !judge(inner, claim, &expected, ask.filter).await? {
            return Ok(None);
        }
        if let Some(turn) = lock_turn(inner, claim, expected, ask).await? {
            return Ok(Some(turn));
        }
        // Another runtime has worked on it, or has just begun to.
        inner.memory.forget(instance_id);
        inner.turns.note_born(instance_id);
        if candidate.polled && ask.patient {
            // Then it is that one's. What is left of it the next poll will find, and then it is loaded.
            inner.mail.forget(instance_id);
            claim.leave(AVOID_LOCKED);
            return Ok(None);
        }
    }
    inner.mail.forget(instance_id);
    let loaded = load::load(inner, candidate).await?;
    if !judge(inner, claim, &loaded, ask.filter).await? {
        return Ok(None);
    }
    let Some(loaded) = load::complete(inner, loaded).await? else {
        return Ok(None);
    };
    // What comes for an instance that ended, and of which nobody knows how, would have it fail again and again.
    if loaded.is_over() && loaded.past().is_err() {
        orphans::drop_all(inner, &loaded).await?;
        return Ok(None);
    }
    let turn = lock_turn(inner, claim, loaded, ask).await?;
    if turn.is_none() {
        claim.avoid(AVOID_LOCKED);
    }
    Ok(turn)
}

async fn lock_turn(
    inner: &Inner,
    claim: &Claim<'_>,
    loaded: Loaded,
    ask: Ask<'_>,
) -> Result<Option<Turn>> {
    let token = uuid::Uuid::new_v4().to_string();
    let until = inner.container.now() + ask.lock_timeout;
    inner.turns.try_lock(&token, &loaded.instance_id, until);
    let Some(instance) = lock::lock(inner, &loaded, &token, ask.lock_timeout).await? else {
        inner.turns.forget_try(&token);
        return Ok(None);
    };
    inner.memory.forget(&loaded.instance_id);
    let past = loaded.past();
    let refused = match &past {
        Ok(_) => None,
        Err(_) => Refusal::of_damaged(&loaded.readable_events(), &loaded.messages),
    };
    let mut turn = Turn {
        token,
        claim: claim.number,
        instance,
        messages: loaded.messages,
        lock_time: ask.lock_timeout,
        uncounted: None,
        kv: loaded.kv,
        past,
        patient: ask.patient,
        begun_at: Instant::now(),
        refused,
        ended: false,
    };
    ahead::merge_late(inner, &mut turn);
    Ok(Some(turn))
}

/// Decides without a lock whether this runtime can work on the instance now.
async fn judge(
    inner: &Inner,
    claim: &Claim<'_>,
    loaded: &Loaded,
    filter: Option<&DispatcherCapabilityFilter>,
) -> Result<bool> {
    if loaded.messages.is_empty() {
        return Ok(false);
    }
    let instance = loaded.instance.as_ref().map(|stored| &stored.document);
    if instance.is_some_and(|instance| !instance.is_lockable(inner.container.now())) {
        claim.avoid(AVOID_LOCKED);
        return Ok(false);
    }
    // The filter comes before the lock and before any event is read: an incompatible execution may hold events that
    // this version does not know (provider guide, "Capability Filtering Contract").
    // An execution without a pinned version fits every dispatcher that supports anything at all.
    let pinned = instance.and_then(|instance| instance.pinned_duroxide_version_packed);
    match pinned {
        Some(pinned) if !supports(filter, pinned) => {
            claim.avoid_unfit(loaded.newest_due(), Some(pinned));
            return Ok(false);
        }
        None if filter.is_some_and(|filter| filter.supported_duroxide_versions.is_empty()) => {
            return Ok(false);
        }
        _ => {}
    }
    if loaded.has_context() {
        return Ok(true);
    }
    if orphans::are_orphaned(inner, loaded).await? {
        orphans::drop_all(inner, loaded).await?;
    } else {
        // Nothing says yet which orchestration its messages are for.
        claim.avoid_unfit(loaded.newest_due(), None);
    }
    Ok(false)
}

/// Whether a dispatcher can work on executions pinned to this version. Of several ranges duroxide uses the first
/// (its suite: `fetch_single_range_only_uses_first_range`).
pub(super) fn supports(filter: Option<&DispatcherCapabilityFilter>, pinned: u64) -> bool {
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
