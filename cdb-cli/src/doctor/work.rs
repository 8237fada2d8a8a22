//! Checks of the queued work: unserved and stuck messages and activities.

use std::time::Duration;

use cdb_model::Timestamp;
use cdb_provider::documents::{Hold, HoldCause, OperatorAction, Selector};
use cdb_provider::observe::{
    Group, Health, KeysInUse, Obstacle, Queues, StuckActivity, StuckInstance, Unstarted,
};

use super::finding::Finding;
use crate::container::{Orchestrations, limits_of_starts};
use crate::exit::Failure;
use crate::output::{counted, short, span};
use crate::view::queues::limits::no_activities;
use crate::view::queues::{running, unstarted};

/// A longer pause may have been forgotten.
const LONG_PAUSE: Duration = Duration::from_secs(60 * 60);

/// The maximum number of reported stuck items.
const MAX_FINDINGS: usize = 10;

/// The remedy when activities wait and others run.
const BUSY_REMEDY: &str = "if these are all workers, raise `RuntimeOptions::worker_concurrency` (2 by default) or start more runtimes; otherwise check \
    that a worker accepts the tags of the due activities";

pub(super) async fn examine(orchestrations: &Orchestrations) -> Result<Vec<Finding>, Failure> {
    let health = orchestrations.provider.observe().health().await?;
    let mut findings = unserved(&health);
    if let Some(limited) = &health.queues.limited {
        findings.extend(paused(limited, health.queues.now));
    }
    findings.extend(idle_limits(&health.idle_limits));
    findings.extend(membership(&health.members));
    findings.extend(unstarted(&health.unstarted));
    let now = health.queues.now;
    let instances = health.stuck_instances.iter();
    let instances = instances.map(|stuck| instance(stuck, now));
    let activities = health.stuck_activities.iter().map(activity);
    let mut stuck: Vec<_> = instances.chain(activities).collect();
    if stuck.is_empty() {
        findings.push(Finding::ok("stuck", "no stuck work"));
    }
    let more = stuck.len().saturating_sub(MAX_FINDINGS);
    stuck.truncate(MAX_FINDINGS);
    findings.extend(stuck);
    if more > 0 {
        let remedy = "run {cdb} queues --slots and {cdb} instances list --status running";
        let says = format!("and {more} more instances or activities");
        findings.push(Finding::warning("stuck", says, remedy));
    }
    Ok(findings)
}

fn unserved(health: &Health) -> Vec<Finding> {
    let (queues, at_instances) = (&health.queues, health.overdue_at_instances);
    let mut findings = Vec::new();
    if let Some(oldest) = queues.messages.overdue().filter(|_| at_instances.is_none()) {
        findings.push(Finding::problem(
            "slots",
            format!("messages have been due for {}, in {}", span(oldest), late_slots(queues)),
            "start a runtime that serves these slots ({cdb} members lists the members), or more runtimes if all are busy",
        ));
    }
    let waiting = queues.limited.as_ref().map_or(0, KeysInUse::waiting);
    if let Some(oldest) = queues.overdue_activities() {
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
            says += &running::described(busy, queues.now);
        }
        let remedy = match *queues.busy {
            [] => "start workers, or check that a worker accepts the tags of the activities",
            _ => BUSY_REMEDY,
        };
        findings.push(Finding::problem("activities", says, remedy));
    }
    if let Some(oldest) = queues.outbox.overdue() {
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
fn paused(limited: &KeysInUse, now: Timestamp) -> Vec<Finding> {
    let changed = limited.changed.as_ref();
    let changed = changed.map(|OperatorAction { at, by, what }| {
        let age = span(now.since(*at));
        format!("; the last change of the limits: {what} by {by}, {age} ago")
    });
    let paused = limited.keys.iter().filter(|row| row.limit.is_pause());
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
fn idle_limits(idle: &[Selector]) -> Option<Finding> {
    let remedy = "compare the names and values with those of {cdb} queues";
    (!idle.is_empty()).then(|| Finding::note("limits", no_activities(idle), remedy))
}

/// Reports the orchestrations that instances wait for and that no runtime has registered, and the instances that
/// limits may keep from beginning.
fn unstarted(starts: &[Unstarted]) -> Vec<Finding> {
    let waiting = unstarted::Waiting::of(starts);
    let limited = waiting.limited.first().map(|first| {
        let named = unstarted::named(&waiting.limited);
        let limits = limits_of_starts(&first.limits);
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
fn late_slots(queues: &Queues) -> String {
    let late = queues.overdue_slots().map(|slot| slot.number.to_string());
    let late: Vec<String> = late.collect();
    let shown = late.iter().take(16).map(String::as_str);
    let shown = shown.collect::<Vec<_>>().join(", ");
    let more = if late.len() > 16 { ", …" } else { "" };
    format!("{}: {shown}{more}", counted(late.len() as u64, "slot"))
}

fn membership(group: &Group) -> Option<Finding> {
    let silent: Vec<&str> = group
        .members
        .iter()
        .filter(|member| member.is_silent)
        .map(|member| &*member.name)
        .collect();
    match (&*group.members, &*silent) {
        ([], _) => None,
        (all, []) => Some(Finding::ok("members", format!("{} alive", all.len()))),
        (_, silent) => Some(Finding::warning(
            "members",
            format!("no heartbeat from {}", silent.join(", ")),
            "the other members remove it and take over its slots; if no member is alive, start a runtime",
        )),
    }
}

fn instance(stuck: &StuckInstance, now: Timestamp) -> Finding {
    let id = &stuck.id;
    match &stuck.obstacle {
        Obstacle::Held(hold) => held(id, hold, now),
        Obstacle::Attempts(attempts) => {
            let version = stuck.version.as_ref();
            let version = version.map_or_else(String::new, |version| format!("{version} "));
            Finding::problem(
                "stuck",
                format!(
                    "instance `{id}`: a message was fetched {attempts} times and not committed"
                ),
                format!(
                    "its turns fail or crash the runtime: check the runtime's log and that `{}` {version}is registered; run {{cdb}} instances show {id}, \
                     then cancel or delete --force",
                    stuck.orchestration,
                ),
            )
        }
        obstacle => locked(
            &format!("instance `{id}`"),
            obstacle,
            "the lock is unusually long; if its runtime has stopped, wait until the lock expires",
        ),
    }
}

/// Reports a long lock.
fn locked(what: &str, obstacle: &Obstacle, remedy: &str) -> Finding {
    let rest = match obstacle {
        Obstacle::Locked { rest } => span(*rest),
        _ => "an unknown time".to_owned(),
    };
    Finding::warning("stuck", format!("{what} is locked for {rest}"), remedy)
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

fn activity(stuck: &StuckActivity) -> Finding {
    let what = format!("activity #{} of `{}`", stuck.id, stuck.instance);
    match &stuck.obstacle {
        Obstacle::Attempts(attempts) => Finding::problem(
            "stuck",
            format!("{what} was fetched {attempts} times and not completed"),
            format!(
                "it crashes its worker, or no worker has it registered; run {{cdb}} instances show {}, then cancel",
                stuck.instance
            ),
        ),
        obstacle => locked(
            &what,
            obstacle,
            "the lock is unusually long; if its worker has stopped, the activity runs again when the lock expires",
        ),
    }
}
