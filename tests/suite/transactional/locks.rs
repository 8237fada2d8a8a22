//! Activities that are cancelled, taken over, or run by another provider.

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_model::{Patch, Query};
use cdb_provider::documents::WorkerItem;
use tokio::sync::Semaphore;

use super::{Counter, CounterKey, Env, Runs, act, registry, short_locks};
use crate::harness::{eventually, long_locks, until_some};

/// Returns the only activity of an instance.
async fn activity(env: &Env, instance: &str) -> Option<cdb_model::Stored<WorkerItem>> {
    let query = Query::<WorkerItem>::in_partition(instance);
    let found = env.provider.container().query(query).first().await;
    found.expect("the queue can be read")
}

/// Runs an activity that is cancelled while its body waits.
async fn cancel_while_it_waits(is_removed_by_delivery: bool) {
    let mut env = Env::start().await;
    let (begun, go) = (Runs::default(), Arc::new(Semaphore::new(0)));
    let (counted, waits) = (begun.clone(), go.clone());
    env.create_counter("cancelled").await;
    env.join(long_locks(), |provider, shop| {
        registry(provider, shop, move |ctx, tx, text| {
            let waits = waits.clone();
            counted.next();
            async move {
                let _go = waits.acquire().await?;
                act(ctx, tx, text).await
            }
        })
    })
    .await;
    let input = if is_removed_by_delivery {
        "x".repeat(9 * 1024)
    } else {
        String::new()
    };
    env.begin("cancelled", &input).await;
    eventually(async || begun.count() == 1).await;
    if !is_removed_by_delivery {
        let emulator = or_skip!(env.backend.emulator(), "faults need the emulator");
        for kind in [OperationKind::Bulk, OperationKind::Delete] {
            emulator.inject(Fault::always(Effect::error(503, 0)).on(kind));
        }
    }
    ok!(env.client.cancel_instance("cancelled", "enough"));
    env.end_of("cancelled").await.expect_err("it is cancelled");
    if is_removed_by_delivery {
        eventually(async || activity(&env, "cancelled").await.is_none()).await;
    } else {
        // Nothing but the commit that ends the instance can have deleted it.
        assert!(activity(&env, "cancelled").await.is_none());
    }
    go.add_permits(1);
    if let Some(emulator) = env.backend.emulator() {
        emulator.clear_faults();
    }
    env.stop_and_check("cancelled", 0).await;
}

#[tokio::test]
async fn a_cancelled_activity_has_no_effects_after_the_end_of_its_instance() {
    cancel_while_it_waits(false).await;
}

#[tokio::test]
async fn a_cancelled_activity_with_a_large_input_has_no_effects_once_it_is_removed() {
    cancel_while_it_waits(true).await;
}

#[tokio::test]
async fn an_activity_that_another_runtime_took_over_has_its_effects_once() {
    let mut env = Env::start().await;
    let (begun, staged) = (Runs::default(), Runs::default());
    let gates = Arc::new([const { Semaphore::const_new(0) }; 2]);
    env.create_counter("taken").await;
    for _ in 0..2 {
        let (begun, staged, gates) = (begun.clone(), staged.clone(), gates.clone());
        let body = move |ctx, tx, text| {
            let (staged, gates, run) = (staged.clone(), gates.clone(), begun.next());
            async move {
                let _open = gates[run - 1].acquire().await?;
                let acted = act(ctx, tx, text).await;
                staged.next();
                acted
            }
        };
        env.join(long_locks(), |provider, shop| {
            registry(provider, shop, body)
        })
        .await;
    }
    env.begin("taken", "").await;
    eventually(async || begun.count() == 1).await;
    // The lock expires without the knowledge of its owner.
    let locked = until_some(async || activity(&env, "taken").await).await;
    let expired = Patch::<WorkerItem>::new()
        .set(WorkerItem::LOCK_TOKEN, None)
        .set(WorkerItem::LOCKED_UNTIL, None)
        .set(WorkerItem::VISIBLE_AT, env.shop.now());
    let container = env.provider.container();
    let patched = container.run(expired.at(&locked)).await;
    patched.expect("the lock is removed");
    eventually(async || begun.count() == 2).await;
    // The first runtime tries to commit while the second one has the lock.
    gates[0].add_permits(1);
    eventually(async || staged.count() == 1).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(env.counted("taken").await, 0);
    gates[1].add_permits(1);
    env.end_of("taken")
        .await
        .expect("the second runtime ends it");
    env.stop_and_check("taken", 1).await;
}

#[tokio::test]
async fn an_activity_of_another_provider_fails_before_its_body_runs() {
    let mut env = Env::start().await;
    let runs = Runs::default();
    let counted = runs.clone();
    let (other, shop) = (env.provider.clone(), env.shop.clone());
    env.join(short_locks(), |_, _| {
        registry(&other, &shop, move |_, _, text| {
            counted.next();
            async move { Ok(text) }
        })
    })
    .await;
    let failed = env.run("elsewhere", "").await.expect_err("it fails");
    assert!(
        failed.contains("start the runtime with the provider whose `transactional`"),
        "{failed}"
    );
    assert_eq!(runs.count(), 0);
    env.stop().await;
}

#[tokio::test]
async fn effects_for_another_container_fail_before_the_body_runs() {
    let mut env = Env::start().await;
    let other = cdb_tests::Backend::start().await;
    let (_, elsewhere) = other.open_as(|_| {}).await;
    let runs = Runs::default();
    let counted = runs.clone();
    env.join(short_locks(), |provider, _| {
        registry(provider, &elsewhere, move |_, _, text| {
            counted.next();
            async move { Ok(text) }
        })
    })
    .await;
    let failed = env.run("elsewhere", "").await.expect_err("it fails");
    assert!(failed.contains("but its instance is in"), "{failed}");
    assert_eq!(runs.count(), 0);
    env.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn a_body_without_effects_ends_like_any_activity() {
    let mut env = Env::start().await;
    env.join_with_one_attempt(|_, tx, text| async move {
        let key = CounterKey::new("plain");
        let found: Option<cdb_model::Stored<Counter>> = tx.read(&key).await?;
        assert!(found.is_none());
        Ok(text)
    })
    .await;
    assert_eq!(env.run("plain", "hello").await.as_deref(), Ok("hello"));
    env.stop().await;
}

impl Env {
    /// Waits until the runtimes have ended all activities, and compares the effects.
    async fn stop_and_check(mut self, instance: &str, expected: i64) {
        for runtime in self.runtimes.drain(..) {
            runtime.shutdown(None).await;
        }
        self.has_effects(instance, expected).await;
        self.stop().await;
    }
}
