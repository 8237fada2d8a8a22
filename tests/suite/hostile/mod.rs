//! Hostile data: unreadable, foreign and oversized. It fails its own instance at most, and is
//! reported.

mod documents;
mod histories;
mod ids;
mod queues;
pub(crate) mod raw;
mod sizes;

use duroxide::runtime::RuntimeOptions;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

use crate::harness::long_locks;

/// A runtime that gives up after two attempts.
fn impatient() -> RuntimeOptions {
    RuntimeOptions {
        max_attempts: 2,
        ..long_locks()
    }
}

/// `Wait` waits for the event `Go`; `Ask` has a child that does; `Echo` returns the result of an
/// activity; `Session` the result of one in the session `s`, `Bind` of one in the session of its input.
fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Wait", |ctx: OrchestrationContext, _: String| async move {
            Ok(ctx.schedule_wait("Go").await)
        })
        .register("Ask", async |ctx: OrchestrationContext, child: String| {
            ctx.schedule_sub_orchestration_with_id("Wait", child, "")
                .await
        })
        .register("Echo", async |ctx: OrchestrationContext, text: String| {
            ctx.schedule_activity("Echo", text).await
        })
        .register(
            "Session",
            async |ctx: OrchestrationContext, text: String| {
                ctx.schedule_activity_on_session("Echo", text, "s").await
            },
        )
        .register(
            "Bind",
            async |ctx: OrchestrationContext, session: String| {
                ctx.schedule_activity_on_session("Echo", "bound", session)
                    .await
            },
        )
        .build()
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Echo", |_: ActivityContext, text: String| async move {
            Ok(text)
        })
        .build()
}
