//! The work: does somebody serve it, is something stuck? Only the oldest work is looked at: what is stuck is old.

use std::collections::BTreeSet;
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_model::{Query, Timestamp};
use cdb_provider::documents::{
    Durable, FIRST_DUE, Instance, InstanceKey, OrchestratorItem, WorkerItem,
};

use super::finding::Finding;
use crate::exit::Failure;
use crate::orchestrations::Orchestrations;
use crate::time::span;
use crate::view::detail::locked_until;
use crate::view::{members, queues};

/// Work that has been due for longer than this waits for somebody who does not come. Idle runtimes look once a second.
const UNSERVED: Duration = Duration::from_secs(60);

/// Locks are renewed within seconds, so nobody needs one for longer.
const LONG_LOCK: Duration = Duration::from_secs(600);

/// duroxide gives a message up at 10 attempts; half of it is no accident.
const MANY_ATTEMPTS: u32 = 5;

/// How many of the oldest messages and activities are looked at.
const SAMPLE: u32 = 200;

/// How many instances are looked at one by one.
const INSTANCES: usize = 50;

/// How many findings of one kind are told.
const MAX_FINDINGS: usize = 10;

pub(super) async fn examine(orchestrations: &Orchestrations) -> Result<Vec<Finding>, Failure> {
    let container = &orchestrations.container;
    let queues = queues::read(container).await?;
    let mut findings = served(&queues);
    findings.extend(membership(container).await?);
    let stuck = [
        stuck_instances(container).await?,
        stuck_activities(container).await?,
    ]
    .concat();
    if stuck.is_empty() {
        findings.push(Finding::ok("stuck", "nothing among the oldest work"));
    }
    let more = stuck.len().saturating_sub(MAX_FINDINGS);
    findings.extend(stuck.into_iter().take(MAX_FINDINGS));
    if more > 0 {
        let remedy = "{cdb} queues --slots, {cdb} instances list --status running";
        findings.push(Finding::warning(
            "stuck",
            format!("and {more} more of the kind"),
            remedy,
        ));
    }
    Ok(findings)
}

fn served(queues: &queues::Queues) -> Vec<Finding> {
    let mut findings = Vec::new();
    let old = |waiting: &queues::Waiting| waiting.oldest.filter(|oldest| *oldest > UNSERVED);
    let behind: Vec<String> = queues
        .slots
        .iter()
        .filter(|slot| slot.oldest > UNSERVED)
        .map(|slot| slot.number.to_string())
        .collect();
    if let Some(oldest) = old(&queues.messages) {
        let shown = behind
            .iter()
            .take(16)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        let more = if behind.len() > 16 { ", …" } else { "" };
        findings.push(Finding::problem(
            "slots",
            format!("messages have been due for {}, in {} slot(s): {shown}{more}", span(oldest), behind.len()),
            "start a runtime that serves these slots ({cdb} members shows who shares them), or more of them if all are busy",
        ));
    }
    if let Some(oldest) = old(&queues.activities) {
        findings.push(Finding::problem(
            "activities",
            format!("{} activities are free, the oldest for {}", queues.activities.count, span(oldest)),
            "start workers, raise worker_concurrency, or check that a worker takes the activities' tags",
        ));
    }
    if let Some(oldest) = old(&queues.outbox) {
        findings.push(Finding::problem(
            "outbox",
            format!(
                "{} deliveries are open, the oldest for {}",
                queues.outbox.count,
                span(oldest)
            ),
            "start a runtime: each of them delivers what others left; {cdb} outbox shows what it is",
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(
            "slots",
            "no work has been due for longer than a minute",
        ));
    }
    findings
}

pub(super) fn dead_letters(count: u64) -> Finding {
    if count == 0 {
        return Finding::ok("deadletters", "no message was given up");
    }
    Finding::problem(
        "deadletters",
        format!("{count} message(s) were given up; whoever waits for them waits for ever"),
        "{cdb} deadletters list says why; mend it, then {cdb} deadletters redrive",
    )
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
            format!("no sign of life from {}", silent.join(", ")),
            "the others remove it and take its slots; if nobody is left, start a runtime",
        )),
    })
}

/// Instances of the oldest due messages that are locked for long, or whose messages were fetched again and again.
async fn stuck_instances(container: &ContainerClient<Durable>) -> Result<Vec<Finding>, Failure> {
    let now = container.now();
    let due = Query::<OrchestratorItem>::across_partitions()
        .filter(OrchestratorItem::VISIBLE_AT.between(FIRST_DUE, now))
        .order_by(OrchestratorItem::BY_DUE.asc())
        .top(SAMPLE)
        .values(OrchestratorItem::INSTANCE_ID);
    let ids: BTreeSet<String> = container.query(due).all().await?.into_iter().collect();
    let mut findings = Vec::new();
    for id in ids.into_iter().take(INSTANCES) {
        let found = container.read(&InstanceKey::new(&*id)).await?;
        findings.extend(found.and_then(|stored| instance(&stored.document, now)));
    }
    Ok(findings)
}

fn instance(instance: &Instance, now: Timestamp) -> Option<Finding> {
    let id = &instance.instance_id;
    let attempts = instance
        .attempts
        .values()
        .copied()
        .max()
        .unwrap_or_default();
    let locked = locked_until(instance, now).map(|until| until.since(now));
    if attempts >= MANY_ATTEMPTS {
        return Some(Finding::problem(
            "stuck",
            format!("instance `{id}`: a message was fetched {attempts} times and never committed"),
            format!(
                "its turns fail or its runtime dies: look for its errors, register `{}` where it is missing; {{cdb}} instances show {id}, then cancel or \
                 delete --force",
                instance.orchestration_name
            ),
        ));
    }
    locked.filter(|left| *left > LONG_LOCK).map(|left| {
        Finding::warning(
            "stuck",
            format!("instance `{id}` is locked for another {}", span(left)),
            "its dispatcher has an unusually long lock; if that runtime is gone, the lock ends by itself then",
        )
    })
}

/// Activities that were taken again and again, or that somebody holds for long.
async fn stuck_activities(container: &ContainerClient<Durable>) -> Result<Vec<Finding>, Failure> {
    let now = container.now();
    let oldest = Query::<WorkerItem>::across_partitions()
        .filter(WorkerItem::VISIBLE_AT.ge(FIRST_DUE))
        .order_by(WorkerItem::BY_DUE.asc())
        .top(SAMPLE);
    let latest = Query::<WorkerItem>::across_partitions()
        .filter(WorkerItem::VISIBLE_AT.ge(FIRST_DUE))
        .order_by(WorkerItem::BY_DUE.desc())
        .top(SAMPLE);
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
                "{what} was taken {} times and never ended",
                item.attempt_count
            ),
            format!(
                "it kills its worker, or none has it registered; {{cdb}} instances show {}, then cancel",
                item.instance_id
            ),
        ));
    }
    let left = item.locked_until?.since(now);
    (left > LONG_LOCK).then(|| {
        Finding::warning(
            "stuck",
            format!("{what} is held for another {}", span(left)),
            "a worker has an unusually long lock; if it is gone, the activity is taken again then",
        )
    })
}
