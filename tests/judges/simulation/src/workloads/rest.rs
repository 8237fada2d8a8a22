//! Activities around the times of locks and claims.

use crate::bounds::LONGEST_ACTIVITY;
use crate::workload::prelude::*;

/// One orchestration after another, whose activity takes about as long as a lock or a claim, or
/// longer.
pub(super) struct Rest;

#[async_trait(?Send)]
impl Workload for Rest {
    fn about(&self) -> About {
        About::half("rest", "Activities around the times of locks and claims")
    }

    fn orchestrations(&self, all: Orchestrations, _: u32) -> Orchestrations {
        all.register("Rest", |ctx, millis| async move {
            ctx.schedule_activity("Pause", millis).await?;
            ctx.schedule_activity("Echo", "rested").await
        })
    }

    async fn run(&self, caller: &Caller) -> Seen {
        let mut random = Random::new(caller.seed, "rest");
        let mut work = Seen::default();
        while caller.goes_on() {
            let instance = format!("Rest-{}", work.others);
            let seconds = [3, 6, 20, 31, 45, LONGEST_ACTIVITY][random.below(6)];
            let millis = (seconds * 1000).to_string();
            work.start(caller, &instance, "Rest", &millis).await;
            work.problems
                .extend(caller.misses(&instance, "rested").await);
        }
        work
    }
}
