//! Results that no single document can hold: they are stored in chunks.

use crate::workload::prelude::*;

/// The longest pause between two orchestrations.
const PAUSE: Duration = Duration::from_secs(6 * 3600);

/// The number of characters of a large result: more than a document holds.
const LARGE: &str = "3000000";

/// Activities that return, and take, a large value.
pub(super) struct Large;

#[async_trait(?Send)]
impl Workload for Large {
    fn about(&self) -> About {
        About::always("large", "Results that no single document can hold")
    }

    fn activities(&self, all: Activities, _: &StartingNode<'_>) -> Activities {
        all.register("Blob", |_, length| async move {
            let length = usize::try_from(number(&length)?).unwrap_or(usize::MAX);
            Ok("x".repeat(length))
        })
        .register(
            "Length",
            |_, blob| async move { Ok(blob.len().to_string()) },
        )
    }

    fn orchestrations(&self, all: Orchestrations, _: u32) -> Orchestrations {
        all.register("Large", |ctx, length| async move {
            let blob = ctx.schedule_activity("Blob", length).await?;
            ctx.schedule_activity("Length", blob).await
        })
    }

    async fn run(&self, caller: &Caller) -> Seen {
        let mut seen = Seen::default();
        let pause = (caller.time / 20).min(PAUSE);
        while caller.goes_on() {
            let instance = format!("Large-{}", seen.others);
            seen.start(caller, &instance, "Large", LARGE).await;
            seen.problems.extend(caller.misses(&instance, LARGE).await);
            caller.rest_for(pause).await;
        }
        seen
    }
}
