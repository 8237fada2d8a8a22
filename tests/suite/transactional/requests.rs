//! Effects cost no request of their own. Their activity ends with a write of its own.

use std::time::Duration;

use cdb_model::{Document as _, Patch};
use cdb_provider::HandOver;
use cdb_tests::Backend;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationStatus};

use super::{Counter, CounterKey, Env, receipt};

const RUNS: u64 = 5;

const RARELY: Duration = Duration::from_secs(3600);

/// Returns the requests of five instances with three activities each; `None` on an account.
async fn spent(with_effects: bool) -> Option<u64> {
    let backend = Backend::start_simulated_with(|config| {
        config.reconciler_interval = RARELY;
        (config.min_poll_interval, config.max_poll_interval) = (RARELY, RARELY);
        // As with effects.
        config.hand_over = HandOver::Never;
    });
    let mut env = Env::on(backend.await).await;
    env.backend.emulator()?;
    let (provider, shop) = env.backend.open_as(|_| {}).await;
    let registry = ActivityRegistry::builder();
    let registry = if with_effects {
        let act = provider.transactional(&shop, |ctx, tx, text: String| async move {
            let id = ctx.instance_id();
            tx.add(receipt(id, String::new()).create())?;
            let one = Patch::new().incr(Counter::EFFECTS, 1);
            tx.add(one.at(&CounterKey::new(id)))?;
            Ok(text)
        });
        registry.register("Act", act)
    } else {
        registry.register(
            "Act",
            |_: ActivityContext, text: String| async move { Ok(text) },
        )
    };
    let provider = std::sync::Arc::new(provider);
    env.client = duroxide::Client::new(provider.clone());
    let runtime = duroxide::runtime::Runtime::start_with_options(
        provider,
        registry.build(),
        super::orchestrations(),
        duroxide::runtime::RuntimeOptions::default(),
    );
    env.runtimes.push(runtime.await);
    for run in 0..RUNS {
        env.create_counter(&format!("run-{run}")).await;
    }
    let emulator = env.backend.emulator()?;
    emulator.reset_requests();
    for run in 0..RUNS {
        let instance = format!("run-{run}");
        ok!(env.client.start_orchestration(&instance, "Many", "3"));
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    let spent = emulator.requests().data_requests();
    for run in 0..RUNS {
        let instance = format!("run-{run}");
        let status = env.client.get_orchestration_status(&instance).await;
        assert!(
            matches!(status, Ok(OrchestrationStatus::Completed { .. })),
            "{status:?}"
        );
        assert_eq!(env.counted(&instance).await, 3 * i64::from(with_effects));
    }
    env.stop().await;
    Some(spent)
}

#[tokio::test(start_paused = true)]
async fn an_activity_with_effects_sends_as_many_requests_as_one_whose_result_is_stored() {
    let (Some(plain), Some(with_effects)) = (spent(false).await, spent(true).await) else {
        println!("skipped: only the emulator counts");
        return;
    };
    println!("{plain} requests without effects, {with_effects} with effects");
    assert_eq!(plain, with_effects);
}
