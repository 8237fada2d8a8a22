//! Orchestrations of many shapes that fail until their cause is repaired.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, BackoffStrategy, OrchestrationContext, OrchestrationRegistry, RetryPolicy,
};

/// What the activities did, and whether `Break` fails.
#[derive(Clone, Default)]
pub(super) struct World {
    repaired: Arc<AtomicBool>,
    completed: Arc<Mutex<BTreeMap<(String, String), u32>>>,
}

impl World {
    fn is_broken(&self) -> bool {
        !self.repaired.load(Ordering::SeqCst)
    }

    pub(super) fn repair(&self) {
        self.repaired.store(true, Ordering::SeqCst);
    }

    fn note(&self, ctx: &ActivityContext, input: &str) {
        let key = (ctx.instance_id().to_owned(), input.to_owned());
        let mut completed = self.completed.lock().expect("not poisoned");
        *completed.entry(key).or_default() += 1;
    }

    /// Asserts that each activity has completed once.
    pub(super) fn check_completed_once(&self) {
        let completed = self.completed.lock().expect("not poisoned");
        let again: Vec<_> = completed.iter().filter(|(_, count)| **count != 1).collect();
        assert!(again.is_empty(), "completed more than once: {again:?}");
    }

    pub(super) fn activities(&self) -> ActivityRegistry {
        let (work, broken) = (self.clone(), self.clone());
        ActivityRegistry::builder()
            .register("Work", move |ctx: ActivityContext, input: String| {
                let world = work.clone();
                async move {
                    world.note(&ctx, &input);
                    Ok(input)
                }
            })
            .register("Break", move |ctx: ActivityContext, input: String| {
                let world = broken.clone();
                async move {
                    if world.is_broken() {
                        return Err(format!("{input} is broken"));
                    }
                    world.note(&ctx, &input);
                    Ok(input)
                }
            })
            .build()
    }

    pub(super) fn orchestrations(&self) -> OrchestrationRegistry {
        let world = self.clone();
        let shaped = move |ctx: OrchestrationContext, input: String| {
            let world = world.clone();
            async move { run(&ctx, &world, &input).await }
        };
        OrchestrationRegistry::builder()
            .register("Shaped", shaped)
            .build()
    }
}

/// The shapes of failing orchestrations.
pub(super) const SHAPES: [&str; 11] = [
    "chain", "retry", "join", "children", "child-3", "again", "values", "session", "events",
    "code", "saga",
];

/// The result of an orchestration.
type End = Result<String, String>;

/// Runs the shape that the input names. Returns the same for every run that succeeds.
async fn run(ctx: &OrchestrationContext, world: &World, input: &str) -> End {
    match input {
        "chain" => chain(ctx).await,
        "retry" => retry(ctx).await,
        "join" => join(ctx).await,
        "children" => children(ctx).await,
        "child-3" => child(ctx, "child-2").await,
        "child-2" => child(ctx, "child-1").await,
        "child-1" => child(ctx, "chain").await,
        "again" => {
            ctx.schedule_activity("Work", "first execution").await?;
            ctx.set_kv_value("from", "the first execution");
            ctx.continue_as_new("again-2").await
        }
        "again-2" => second_execution(ctx).await,
        "inherit" => {
            ctx.set_kv_value("from", "the first execution");
            ctx.continue_as_new("inherit-2").await
        }
        "inherit-2" => {
            let first = ctx.schedule_activity("Work", "one").await?;
            let from = ctx.get_kv_value("from").unwrap_or_default();
            Ok(format!("{first} {from}"))
        }
        "values" => values(ctx).await,
        "cleared" => {
            ctx.set_kv_value("from", "the first execution");
            ctx.continue_as_new("cleared-2").await
        }
        "cleared-2" => clear(ctx).await,
        "cleared-3" => Ok(format!("{:?}", ctx.get_kv_value("from"))),
        "session" => {
            let first = ctx.schedule_activity_on_session("Work", "one", "s").await?;
            let second = ctx
                .schedule_activity_on_session("Break", "two", "s")
                .await?;
            Ok(format!("{first} {second}"))
        }
        "events" => events(ctx).await,
        // A fault of the code that the next deployment mends.
        "code" if world.is_broken() => {
            ctx.schedule_activity("Work", "one").await?;
            Err("a fault of the code".to_owned())
        }
        "code" => ctx.schedule_activity("Work", "one").await,
        "saga" => saga(ctx).await,
        "at once" if world.is_broken() => Err("broken at once".to_owned()),
        "at once" => Ok("in the end".to_owned()),
        other => Err(format!("no shape {other}")),
    }
}

async fn chain(ctx: &OrchestrationContext) -> End {
    let first = ctx.schedule_activity("Work", "one").await?;
    ctx.schedule_timer(Duration::from_millis(1)).await;
    let second = ctx.schedule_activity("Break", "two").await?;
    let third = ctx.schedule_activity("Work", "three").await?;
    Ok(format!("{first} {second} {third}"))
}

async fn retry(ctx: &OrchestrationContext) -> End {
    let policy = RetryPolicy::new(3).with_backoff(BackoffStrategy::Fixed {
        delay: Duration::from_millis(1),
    });
    let first = ctx.schedule_activity("Work", "one").await?;
    let second = ctx.schedule_activity_with_retry("Break", "two", policy);
    Ok(format!("{first} {}", second.await?))
}

/// One branch fails while the other one goes on.
async fn join(ctx: &OrchestrationContext) -> End {
    let steps = async {
        let first = ctx.schedule_activity("Work", "a").await?;
        let second = ctx.schedule_activity("Work", "b").await?;
        ctx.schedule_timer(Duration::from_millis(20)).await;
        let third = ctx.schedule_activity("Work", "c").await?;
        Ok::<_, String>(format!("{first} {second} {third}"))
    };
    let (broken, steps) = ctx.join2(ctx.schedule_activity("Break", "x"), steps).await;
    Ok(format!("{} {}", broken?, steps?))
}

async fn children(ctx: &OrchestrationContext) -> End {
    let first = ctx.schedule_sub_orchestration("Shaped", "session");
    let second = ctx.schedule_sub_orchestration("Shaped", "child-3");
    let third = ctx.schedule_activity("Work", "beside");
    let (first, second, third) = ctx.join3(first, second, third).await;
    Ok(format!("{} {} {}", first?, second?, third?))
}

async fn child(ctx: &OrchestrationContext, below: &str) -> End {
    let first = ctx.schedule_activity("Work", "before").await?;
    let child = ctx.schedule_sub_orchestration("Shaped", below).await?;
    let last = ctx.schedule_activity("Work", "after").await?;
    Ok(format!("{first} ({child}) {last}"))
}

async fn second_execution(ctx: &OrchestrationContext) -> End {
    let from = ctx.get_kv_value("from").unwrap_or_default();
    ctx.set_kv_value("from", "the second execution");
    let first = ctx.schedule_activity("Work", "second execution").await?;
    let second = ctx.schedule_activity("Break", "two").await?;
    Ok(format!("{from} {first} {second}"))
}

/// Clears the values of the first execution. The third execution returns what is left.
async fn clear(ctx: &OrchestrationContext) -> End {
    ctx.clear_all_kv_values();
    ctx.schedule_activity("Work", "one").await?;
    ctx.schedule_activity("Break", "two").await?;
    ctx.continue_as_new("cleared-3").await
}

async fn values(ctx: &OrchestrationContext) -> End {
    let before = ctx.get_kv_value("step");
    ctx.set_kv_value("step", "one");
    let first = ctx.schedule_activity("Work", "one").await?;
    let seen = ctx.get_kv_value("step");
    ctx.clear_kv_value("step");
    ctx.set_kv_value("other", &first);
    let second = ctx.schedule_activity("Break", "two").await?;
    let other = ctx.get_kv_value("other");
    Ok(format!("{before:?} {seen:?} {second} {other:?}"))
}

async fn events(ctx: &OrchestrationContext) -> End {
    let raised = ctx.schedule_wait("Event").await;
    let queued = ctx.dequeue_event("Queue").await;
    let broken = ctx.schedule_activity("Break", "two").await?;
    let later = ctx.dequeue_event("Queue").await;
    Ok(format!("{raised} {queued} {broken} {later}"))
}

/// Reacts to the failure, and fails with it.
async fn saga(ctx: &OrchestrationContext) -> End {
    let first = ctx.schedule_activity("Work", "reserve").await?;
    match ctx.schedule_activity("Break", "charge").await {
        Ok(charged) => Ok(format!("{first} {charged}")),
        Err(error) => {
            ctx.schedule_activity("Work", "cancel the reservation")
                .await?;
            Err(format!("cannot charge: {error}"))
        }
    }
}

pub(super) fn expected(shape: &str) -> &'static str {
    match shape {
        "chain" => "one two three",
        "join" => "x a b c",
        "children" => "one two before (before (before (one two three) after) after) after beside",
        "child-3" => "before (before (before (one two three) after) after) after",
        "again" => "the first execution second execution two",
        "inherit" => "one the first execution",
        "cleared" => "None",
        "values" => "None Some(\"one\") two Some(\"one\")",
        "retry" | "session" => "one two",
        "events" => "raised first two second",
        "code" => "one",
        "saga" => "reserve charge",
        "at once" => "in the end",
        other => panic!("{other}"),
    }
}
