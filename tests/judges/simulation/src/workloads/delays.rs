//! Timers of hours and days, which end in time.

use crate::caller::differs;
use crate::workload::prelude::*;

const HOUR: Duration = Duration::from_secs(3600);

/// Instances with one timer each.
pub(super) struct Delays;

#[async_trait(?Send)]
impl Workload for Delays {
    fn about(&self) -> About {
        About::always("delays", "Timers of hours and days")
    }

    fn orchestrations(&self, all: Orchestrations, _: u32) -> Orchestrations {
        all.register("Delay", |ctx, seconds| async move {
            let delay = Duration::from_secs(number(&seconds)?);
            ctx.schedule_timer(delay).await;
            Ok("later".to_owned())
        })
    }

    async fn run(&self, caller: &Caller) -> Seen {
        let mut random = Random::new(caller.seed, "delays");
        let (mut result, mut waiting) = (Seen::default(), JoinSet::new());
        while Instant::now() + HOUR < caller.until {
            let longest = (caller.until - Instant::now()).min(HOUR * 72);
            let delay = random.duration(HOUR / 60..longest);
            let instance = format!("Delay-{}", result.others);
            let seconds = delay.as_secs().to_string();
            result.start(caller, &instance, "Delay", &seconds).await;
            let one = caller.clone();
            waiting.spawn(async move {
                let output = one.end_after(&instance, delay).await;
                differs(&instance, output.as_deref(), "later")
            });
            caller.rest(&mut random, HOUR..HOUR * 8).await;
        }
        result.gather(waiting).await
    }
}
