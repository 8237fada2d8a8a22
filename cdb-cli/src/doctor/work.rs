//! Checks of the queued work: unserved and stuck messages and activities.
//!
//! Stuck work is old, so the checks read the oldest items only.

use std::collections::BTreeSet;
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_model::{Query, Timestamp};
use cdb_provider::documents::{
    Durable, FIRST_DUE, Hold, HoldCause, Instance, InstanceKey, OperatorAction, OrchestratorItem,
    WorkerItem,
};

use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::finding::Finding;
use super::overdue;
use crate::container::lock::locked_until;
use crate::container::{Orchestrations, begin_pauses};
use crate::exit::Failure;
use crate::output::{counted, short, span};
use crate::view::queues::limited_keys::{self, LimitedKeys};
use crate::view::queues::limits::no_activities;
use crate::view::queues::unstarted::{MAX_BACKOFF, Unstarted};
use crate::view::queues::{lengths, members, unstarted};

/// Work due for longer is unserved: idle runtimes poll every 1.25 s.
const UNSERVED: Duration = Duration::from_secs(60);

/// A longer pause may have been forgotten.
const LONG_PAUSE: Duration = Duration::from_secs(60 * 60);

/// A longer lock is unusual: runtimes renew locks within seconds.
const LONG_LOCK: Duration = Duration::from_secs(600);

/// The number of attempts that is reported. duroxide fails a message after 10 attempts.
const MANY_ATTEMPTS: u32 = 5;

/// The number of oldest activities that are read.
const SAMPLE: u32 = 200;

/// The number of oldest messages whose instances are read. The messages of a held instance stay due,
/// and there may be many.
const MESSAGES: u32 = 2_000;

/// The maximum number of instances that are read.
const INSTANCES: usize = 200;

/// The number of concurrent reads.
const CONCURRENT: usize = 16;

/// The maximum number of reported stuck items.
const MAX_FINDINGS: usize = 10;

/// The remedy when activities wait and others run.
const BUSY_REMEDY: &str = "if these are all workers, raise `RuntimeOptions::worker_concurrency` (2 by default) or start more runtimes; otherwise check \
    that a worker accepts the tags of the due activities";

pub(super) async fn examine(orchestrations: &Orchestrations) -> Result<Vec<Finding>, Failure> {
    let container = &orchestrations.container;
    let queues = lengths::read(orchestrations).await?;
    let oldest = queues.messages.oldest.filter(|oldest| *oldest > UNSERVED);
    let waiting = match oldest {
        Some(_) => overdue::at_instances(orchestrations, UNSERVED).await?,
        None => None,
    };
    let mut findings = unserved(&queues, waiting);
    if let Some(limited) = &queues.limited {
        findings.extend(paused(limited, queues.now));
    }
    findings.extend(idle_limits(orchestrations).await?);
    findings.extend(membership(container).await?);
    findings.extend(unstarted(&unstarted::read(orchestrations).await?));
    let stuck = [
        stuck_instances(container).await?,
        stuck_activities(container).await?,
    ]
    .concat();
    if stuck.is_empty() {
        findings.push(Finding::ok("stuck", "no stuck work"));
    }
    let more = stuck.len().saturating_sub(MAX_FINDINGS);
    findings.extend(stuck.into_iter().take(MAX_FINDINGS));
    if more > 0 {
        let remedy = "run {cdb} queues --slots and {cdb} instances list --status running";
        let says = format!("and {more} more instances or activities");
        findings.push(Finding::warning("stuck", says, remedy));
    }
    Ok(findings)
}

/// Reads instances.
async fn instances(
    container: &ContainerClient<Durable>,
    ids: impl IntoIterator<Item = String>,
) -> Result<Vec<Instance>, Failure> {
    let found = stream::iter(ids)
        .map(async |id| container.read(&InstanceKey::new(&*id)).await)
        .buffered(CONCURRENT);
    let found: Vec<_> = found.try_collect().await?;
    let found = found.into_iter().flatten();
    Ok(found.map(|stored| stored.document).collect())
}

fn unserved(queues: &lengths::Queues, at_instances: Option<usize>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let old = |waiting: &lengths::Waiting| waiting.oldest.filter(|oldest| *oldest > UNSERVED);
    if let Some(oldest) = old(&queues.messages).filter(|_| at_instances.is_none()) {
        findings.push(Finding::problem(
            "slots",
            format!("messages have been due for {}, in {}", span(oldest), late_slots(&queues.slots)),
            "start a runtime that serves these slots ({cdb} members lists the members), or more runtimes if all are busy",
        ));
    }
    let waiting = queues.limited.as_ref().map_or(0, LimitedKeys::waiting);
    if let Some(oldest) = queues.unlimited().filter(|oldest| *oldest > UNSERVED) {
        let mut says = format!(
            "due activities: {}{}, the oldest for {}",
            queues.activities.count,
            match waiting {
                0 => String::new(),
                waiting => format!(" ({waiting} wait for limits)"),
            },
            span(oldest)
        );
        for busy in &queues.busy {
            says += "; ";
            says += &busy.described(queues.now);
        }
        let remedy = match *queues.busy {
            [] => "start workers, or check that a worker accepts the tags of the activities",
            _ => BUSY_REMEDY,
        };
        findings.push(Finding::problem("activities", says, remedy));
    }
    if let Some(oldest) = old(&queues.outbox) {
        findings.push(Finding::problem(
            "outbox",
            format!(
                "undelivered intents: {}, the oldest for {}",
                queues.outbox.count,
                span(oldest)
            ),
            "start a runtime, which delivers the intents of stopped runtimes too; {cdb} messages list --state retrying lists them",
        ));
    }
    if findings.is_empty() {
        let apart = match waiting {
            0 => "",
            _ => ", apart from what waits for limits",
        };
        let messages = at_instances.map_or_else(String::new, |count| {
            let instances = counted(count as u64, "instance");
            format!(", apart from messages that {instances} cannot or will not take yet")
        });
        let says = format!("no work has been due for longer than a minute{apart}{messages}");
        findings.push(Finding::ok("slots", says));
    }
    findings
}

/// Reports the pauses that activities have waited for since long ago: they may have been forgotten.
fn paused(limited: &LimitedKeys, now: Timestamp) -> Vec<Finding> {
    let changed = limited.changed.as_ref();
    let changed = changed.map(|OperatorAction { at, by, what }| {
        let age = span(now.since(*at));
        format!("; the last change of the limits: {what} by {by}, {age} ago")
    });
    let paused = limited.shown.iter().filter(|row| row.is_paused);
    let forgotten = paused.filter_map(|row| {
        let oldest = row.oldest.filter(|oldest| *oldest > LONG_PAUSE)?;
        let says = format!(
            "`{}` is paused; waiting activities: {}, the oldest due for {}{}",
            short(&row.key, 80),
            row.waiting,
            span(oldest),
            changed.as_deref().unwrap_or_default()
        );
        let remedy = "if they may start, remove or raise the limit; {cdb} limits list shows it";
        Some(Finding {
            remedy: Some(remedy.to_owned()),
            ..Finding::ok("limits", says)
        })
    });
    forgotten.collect()
}

/// Names the limits that select no activity: their selectors may be misspelled.
async fn idle_limits(orchestrations: &Orchestrations) -> Result<Vec<Finding>, Failure> {
    let Some(limits) = orchestrations.provider.limits().await? else {
        return Ok(Vec::new());
    };
    let idle = limited_keys::without_activities(orchestrations, &limits).await?;
    let idle: Vec<_> = idle.into_iter().map(|rule| rule.select).collect();
    if idle.is_empty() {
        return Ok(Vec::new());
    }
    let remedy = "compare the names and values with those of {cdb} queues";
    Ok(vec![Finding::note("limits", no_activities(&idle), remedy)])
}

/// Reports the orchestrations that instances wait for and that no runtime has registered, and the instances that
/// limits may keep from beginning.
fn unstarted(starts: &[Unstarted]) -> Vec<Finding> {
    let waiting = unstarted::Waiting::of(starts);
    let limited = waiting.limited.first().map(|first| {
        let named = unstarted::named(&waiting.limited);
        let limits = begin_pauses::described(&first.limits);
        Finding::note(
            "limits",
            format!("no runtime has begun {named}; {limits}"),
            "if they may begin, remove the limit; if they do not have the label, check that the runtimes are not busy",
        )
    });
    let unknown = waiting.unknown.into_iter();
    let unknown = unknown.map(|(wanted, instances)| {
        let remedy = format!(
            "start a runtime that has {wanted} registered; the instances wait, unless the runtimes are set to fail them (`on_nondeterminism`)"
        );
        let named = unstarted::named(&instances);
        let says = format!("no runtime knows {wanted}, which starts {named}");
        Finding::problem("runtimes", says, remedy)
    });
    unknown.chain(limited).collect()
}

/// Lists the slots with unserved messages, at most 16 of them.
fn late_slots(slots: &[lengths::Slot]) -> String {
    let late: Vec<String> = slots
        .iter()
        .filter(|slot| slot.oldest > UNSERVED)
        .map(|slot| slot.number.to_string())
        .collect();
    let shown = late.iter().take(16).map(String::as_str);
    let shown = shown.collect::<Vec<_>>().join(", ");
    let more = if late.len() > 16 { ", …" } else { "" };
    format!("{}: {shown}{more}", counted(late.len() as u64, "slot"))
}

async fn membership(container: &ContainerClient<Durable>) -> Result<Option<Finding>, Failure> {
    let members = members::read(container, None).await?;
    let silent: Vec<&str> = members
        .members
        .iter()
        .filter(|member| member.silent)
        .map(|member| &*member.name)
        .collect();
    Ok(match (&*members.members, &*silent) {
        ([], _) => None,
        (all, []) => Some(Finding::ok("members", format!("{} alive", all.len()))),
        (_, silent) => Some(Finding::warning(
            "members",
            format!("no heartbeat from {}", silent.join(", ")),
            "the other members remove it and take over its slots; if no member is alive, start a runtime",
        )),
    })
}

/// Finds instances with a long lock or with repeatedly fetched messages, among those of the oldest
/// due messages.
async fn stuck_instances(container: &ContainerClient<Durable>) -> Result<Vec<Finding>, Failure> {
    let now = container.now();
    // Abandoned messages are due again in at most a minute.
    let due = Query::<OrchestratorItem>::across_partitions()
        .filter(OrchestratorItem::VISIBLE_AT.between(FIRST_DUE, now + MAX_BACKOFF))
        .order_by(OrchestratorItem::BY_DUE)
        .limit(MESSAGES)
        .values(OrchestratorItem::INSTANCE_ID);
    let ids: BTreeSet<String> = container.query(due).all().await?.into_iter().collect();
    let found = instances(container, ids.into_iter().take(INSTANCES)).await?;
    // Instances that have not started are a finding of their orchestration.
    let started = found.iter().filter(|found| found.is_created());
    Ok(started.filter_map(|found| instance(found, now)).collect())
}

fn instance(instance: &Instance, now: Timestamp) -> Option<Finding> {
    let (id, version) = (&instance.instance_id, &instance.orchestration_version);
    let attempts = instance
        .attempts
        .values()
        .copied()
        .max()
        .unwrap_or_default();
    if let Some(held) = &instance.held {
        return Some(self::held(id, held, now));
    }
    let locked = locked_until(instance, now).map(|until| until.since(now));
    if attempts >= MANY_ATTEMPTS {
        return Some(Finding::problem(
            "stuck",
            format!("instance `{id}`: a message was fetched {attempts} times and not committed"),
            format!(
                "its turns fail or crash the runtime: check the runtime's log and that `{}` {}is registered; run {{cdb}} instances show {id}, then \
                 cancel or delete --force",
                instance.orchestration_name,
                version
                    .as_ref()
                    .map_or_else(String::new, |version| format!("{version} "))
            ),
        ));
    }
    locked.filter(|left| *left > LONG_LOCK).map(|left| {
        Finding::warning(
            "stuck",
            format!("instance `{id}` is locked for {}", span(left)),
            "the lock is unusually long; if its runtime has stopped, wait until the lock expires",
        )
    })
}

/// Reports an instance that waits for a runtime with other code.
fn held(id: &str, held: &Hold, now: Timestamp) -> Finding {
    let event = held
        .event
        .map_or_else(String::new, |event| format!(", event {event}"));
    let says = format!(
        "instance `{id}` of `{}` {} is held for {}: {}{event}, says {}",
        held.orchestration,
        held.version.as_deref().unwrap_or("(any version)"),
        span(now.since(held.since)),
        match held.cause {
            HoldCause::Nondeterminism => "the deployed code does not replay its history",
            HoldCause::Unregistered => "the deployed code does not register its orchestration",
            HoldCause::Other => "the deployed code cannot execute it",
        },
        held.by
    );
    let remedy = format!(
        "start a runtime with the code that the instance began with, or with code that replays it: it continues within a minute; run {{cdb}} instances show {id}"
    );
    Finding::problem("held", says, remedy)
}

/// Finds activities with a long lock or with many attempts.
async fn stuck_activities(container: &ContainerClient<Durable>) -> Result<Vec<Finding>, Failure> {
    let now = container.now();
    let oldest = Query::<WorkerItem>::across_partitions()
        .filter(WorkerItem::VISIBLE_AT.ge(FIRST_DUE))
        .order_by(WorkerItem::BY_DUE)
        .limit(SAMPLE);
    let latest = Query::<WorkerItem>::across_partitions()
        .filter(WorkerItem::VISIBLE_AT.ge(FIRST_DUE))
        .order_by(WorkerItem::BY_DUE.reversed())
        .limit(SAMPLE);
    let (oldest, latest) =
        futures::try_join!(container.query(oldest).all(), container.query(latest).all())?;
    let mut seen = BTreeSet::new();
    let items = oldest
        .into_iter()
        .chain(latest)
        .map(|stored| stored.document);
    let new = items.filter(|item| {
        seen.insert((
            item.instance_id.clone(),
            item.execution_id,
            item.activity_id,
        ))
    });
    Ok(new.filter_map(|item| activity(&item, now)).collect())
}

fn activity(item: &WorkerItem, now: Timestamp) -> Option<Finding> {
    let what = format!("activity #{} of `{}`", item.activity_id, item.instance_id);
    if item.attempt_count >= MANY_ATTEMPTS {
        return Some(Finding::problem(
            "stuck",
            format!(
                "{what} was fetched {} times and not completed",
                item.attempt_count
            ),
            format!(
                "it crashes its worker, or no worker has it registered; run {{cdb}} instances show {}, then cancel",
                item.instance_id
            ),
        ));
    }
    let left = item.locked_until?.since(now);
    (left > LONG_LOCK).then(|| {
        Finding::warning(
            "stuck",
            format!("{what} is locked for {}", span(left)),
            "the lock is unusually long; if its worker has stopped, the activity runs again when the lock expires",
        )
    })
}
