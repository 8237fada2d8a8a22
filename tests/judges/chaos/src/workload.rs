//! The orchestrations of a run, each with a known result and known bookings.

use std::collections::BTreeMap;
use std::time::Duration;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

use crate::effects::run_effects;
use crate::ledger::Ledger;

/// The queue of an instance that waits for messages, and how many it waits for.
pub(crate) const QUEUE: &str = "Messages";
pub(crate) const MESSAGES: usize = 3;

/// A kind of orchestration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Five bookings, one after the other.
    Counter,
    /// Three bookings. The last one is refused every other time, and the others are then undone.
    Saga,
    /// Eight activities, each with the result of the one before.
    Chain,
    /// Eight activities at once.
    FanOut,
    /// Four executions with a booking each.
    Again,
    /// Three activities on one session.
    Session,
    /// Three messages from outside.
    Messages,
    /// A wait for an event that never comes, with a child; cancelled.
    Cancelled,
    /// Four children.
    Parent,
    /// Three timers.
    Timer,
    /// An activity that takes longer than the default locks, and a booking.
    Long,
    /// Two activities on one session, which together take longer than its lock, and a booking.
    LongSession,
    /// Transactional activities: one, then ten at once.
    Effects,
}

/// The kinds that take longer than the default locks.
pub const LONG_KINDS: [Kind; 2] = [Kind::Long, Kind::LongSession];

/// The time of an activity that takes longer than the default locks.
const LONG: Duration = Duration::from_secs(100);

/// All short kinds, in the order of job numbers.
pub const KINDS: [Kind; 10] = [
    Kind::Counter,
    Kind::Saga,
    Kind::Chain,
    Kind::FanOut,
    Kind::Again,
    Kind::Session,
    Kind::Messages,
    Kind::Cancelled,
    Kind::Parent,
    Kind::Timer,
];

/// One orchestration of a run.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Its number in the run.
    pub number: usize,
    /// What it does.
    pub kind: Kind,
}

impl Job {
    /// Returns the job of a number. Consecutive numbers have all kinds in turn.
    pub fn new(number: usize) -> Self {
        let kind = KINDS[number % KINDS.len()];
        Self { number, kind }
    }

    /// Returns the id of its instance.
    pub fn instance(self) -> String {
        format!("{}-{}", self.orchestration(), self.number)
    }

    pub(crate) fn orchestration(self) -> String {
        format!("{:?}", self.kind)
    }

    /// Whether an instance is this orchestration or one that it started.
    pub(crate) fn has(self, instance_id: &str) -> bool {
        let rest = instance_id.strip_prefix(&self.instance());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '-']))
    }

    /// Whether the last booking of a saga is refused.
    fn is_refused(self) -> bool {
        self.number / KINDS.len() % 2 == 1
    }

    pub(crate) fn input(self) -> &'static str {
        if self.is_refused() { "refused" } else { "" }
    }

    /// The expected result. `None` for a cancelled orchestration.
    pub(crate) fn output(self) -> Option<&'static str> {
        Some(match self.kind {
            Kind::Counter => "5",
            Kind::Saga if self.is_refused() => "undone",
            Kind::Saga => "booked",
            Kind::Chain => "8",
            Kind::FanOut => "28",
            Kind::Again => "4",
            Kind::Session => "a+b+c",
            Kind::Messages => "0+1+2",
            Kind::Parent => "6",
            Kind::Timer => "later",
            Kind::Effects => "10",
            Kind::Long | Kind::LongSession => "rested",
            Kind::Cancelled => return None,
        })
    }

    /// The time that its activities take.
    pub fn work(self) -> Duration {
        match self.kind {
            Kind::Long | Kind::LongSession => LONG,
            _ => Duration::ZERO,
        }
    }

    /// The expected bookings.
    pub(crate) fn bookings(self) -> BTreeMap<String, i64> {
        let steps: Vec<(String, i64)> = match self.kind {
            Kind::Counter => (1..=5).map(|n| (format!("count-{n}"), 1)).collect(),
            Kind::Again => (1..=4).map(|n| (format!("execution-{n}"), 1)).collect(),
            Kind::Saga => {
                let last = if self.is_refused() {
                    vec![("undo-2", -20), ("undo-1", -10)]
                } else {
                    vec![("book-3", 30)]
                };
                let first = [("book-1", 10), ("book-2", 20)];
                let all = first.into_iter().chain(last);
                all.map(|(step, amount)| (step.to_owned(), amount))
                    .collect()
            }
            Kind::Long | Kind::LongSession => vec![("rested".to_owned(), 1)],
            _ => Vec::new(),
        };
        steps.into_iter().collect()
    }
}

/// The activities, which book in `ledger`.
pub fn activities(ledger: &Ledger) -> ActivityRegistry {
    let ledger = ledger.clone();
    ActivityRegistry::builder()
        .register("Echo", |_: ActivityContext, input: String| async move {
            Ok(input)
        })
        .register("Refuse", |_: ActivityContext, _: String| async move {
            Err("no seats".to_owned())
        })
        .register("Pause", |ctx: ActivityContext, millis: String| async move {
            let pause = Duration::from_millis(number(&millis)?);
            tokio::select! {
                () = tokio::time::sleep(pause) => Ok(String::new()),
                () = ctx.cancelled() => Err("cancelled".to_owned()),
            }
        })
        .register("Book", move |ctx: ActivityContext, input: String| {
            let ledger = ledger.clone();
            async move {
                let (step, amount) = input.split_once(':').ok_or("no amount")?;
                let amount = amount.parse().map_err(|_| "no amount".to_owned())?;
                ledger.book(ctx.instance_id(), step, amount).await;
                Ok(String::new())
            }
        })
        .build()
}

/// The orchestrations.
pub fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Counter", run_counter)
        .register("Saga", run_saga)
        .register("Chain", run_chain)
        .register(
            "FanOut",
            |ctx: OrchestrationContext, _: String| async move {
                let all = (0..8).map(|n| ctx.schedule_activity("Echo", n.to_string()));
                sum(ctx.join(all.collect()).await)
            },
        )
        .register("Again", run_again)
        .register("Session", run_session)
        .register("Messages", run_messages)
        .register("Cancelled", run_cancelled)
        .register(
            "Parent",
            |ctx: OrchestrationContext, _: String| async move {
                let all =
                    (0..4).map(|n: u32| ctx.schedule_sub_orchestration("Child", n.to_string()));
                sum(ctx.join(all.collect()).await)
            },
        )
        .register(
            "Child",
            |ctx: OrchestrationContext, input: String| async move {
                ctx.schedule_activity("Echo", input).await
            },
        )
        .register("Timer", |ctx: OrchestrationContext, _: String| async move {
            for _ in 0..3 {
                ctx.schedule_timer(Duration::from_millis(100)).await;
            }
            Ok("later".to_owned())
        })
        .register("Steady", run_steady)
        .register("Long", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_activity("Pause", LONG.as_millis().to_string())
                .await?;
            ctx.schedule_activity("Book", "rested:1").await?;
            Ok("rested".to_owned())
        })
        .register("LongSession", run_long_session)
        .register("Effects", run_effects)
        .build()
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

fn sum(results: Vec<Result<String, String>>) -> Result<String, String> {
    let mut sum = 0;
    for result in results {
        sum += number(&result?)?;
    }
    Ok(sum.to_string())
}

async fn run_counter(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    for n in 1..=5 {
        ctx.schedule_activity("Book", format!("count-{n}:1"))
            .await?;
    }
    Ok("5".to_owned())
}

async fn run_saga(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let book = |entry: &str| ctx.schedule_activity("Book", entry);
    book("book-1:10").await?;
    book("book-2:20").await?;
    let third = if input == "refused" {
        ctx.schedule_activity("Refuse", "").await
    } else {
        book("book-3:30").await
    };
    if third.is_ok() {
        return Ok("booked".to_owned());
    }
    book("undo-2:-20").await?;
    book("undo-1:-10").await?;
    Ok("undone".to_owned())
}

async fn run_chain(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let mut value = 0;
    for _ in 0..8 {
        let answer = ctx
            .schedule_activity("Echo", (value + 1).to_string())
            .await?;
        value = number(&answer)?;
    }
    Ok(value.to_string())
}

/// Counts its executions in its input and in the key-value store, which have to agree.
async fn run_again(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let before = number(&input).unwrap_or_default();
    let kept = ctx.get_kv_value("executions").unwrap_or_default();
    if number(&kept).unwrap_or_default() != before {
        return Err(format!("{before} executions, and `{kept}` are stored"));
    }
    let now = before + 1;
    ctx.schedule_activity("Book", format!("execution-{now}:1"))
        .await?;
    ctx.set_kv_value("executions", now.to_string());
    if now < 4 {
        return ctx.continue_as_new(now.to_string()).await;
    }
    Ok(now.to_string())
}

async fn run_session(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let mut answers = Vec::new();
    for input in ["a", "b", "c"] {
        answers.push(ctx.schedule_activity_on_session("Echo", input, "s").await?);
    }
    Ok(answers.join("+"))
}

async fn run_long_session(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    for _ in 0..2 {
        let half = (LONG / 2).as_millis().to_string();
        ctx.schedule_activity_on_session("Pause", half, "s").await?;
    }
    ctx.schedule_activity_on_session("Book", "rested:1", "s")
        .await?;
    Ok("rested".to_owned())
}

/// Takes each message once. The sender retries a failed call, and a repeated message is another
/// message.
async fn run_messages(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let mut taken: Vec<String> = Vec::new();
    while taken.len() < MESSAGES {
        let message = ctx.dequeue_event(QUEUE).await;
        if !taken.contains(&message) {
            taken.push(message);
        }
    }
    taken.sort_unstable();
    Ok(taken.join("+"))
}

async fn run_cancelled(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    if input != "child" {
        let child = format!("{}-child", ctx.instance_id());
        let child = ctx.schedule_sub_orchestration_with_id("Cancelled", child, "child");
        return child.await;
    }
    Ok(ctx.schedule_wait("never").await)
}

/// Books and pauses in turn, so that the bookings show when work stopped.
async fn run_steady(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    for n in 0..number(&input)? {
        ctx.schedule_activity("Book", format!("step-{n}:1")).await?;
        ctx.schedule_activity("Pause", "100").await?;
    }
    Ok(input)
}
