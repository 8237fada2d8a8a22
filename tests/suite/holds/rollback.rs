//! Deployments whose code does not replay the running instances, and their rollback.

use cdb_provider::documents::HoldCause;
use duroxide::OrchestrationStatus;
use tokio::time::{Instant, sleep};

use super::{BACKOFF, Code, FOUND, LONG, SECOND, Shop, run};

#[tokio::test(start_paused = true)]
async fn a_changed_deployment_fails_no_instance_and_a_rollback_continues_all() {
    let shop = Shop::open().await;
    let old = shop.deploy(Code::Old).await;
    let ids = ["order-1", "order-2", "order-3", "order-4"];
    for id in ids {
        shop.order(id).await;
    }
    old.stop().await;
    let changed = shop.deploy(Code::Changed).await;
    for id in ids {
        shop.ship(id).await;
    }
    sleep(LONG).await;
    for id in ids {
        let status = shop.status(id).await;
        assert!(
            matches!(status, OrchestrationStatus::Running { .. }),
            "{id}: {status:?}"
        );
        let instance = shop.instance(id).await;
        let hold = instance.held.expect("it is held");
        assert_eq!(
            (hold.cause, hold.event),
            (HoldCause::Nondeterminism, Some(2))
        );
        assert_eq!(
            (&*hold.orchestration, hold.version.as_deref()),
            ("Order", Some("1.0.0"))
        );
        assert!(
            hold.by.contains(&std::process::id().to_string()),
            "{}",
            hold.by
        );
        assert!(instance.attempts.is_empty());
    }
    changed.stop().await;
    let _old = shop.deploy(Code::Old).await;
    for id in ids {
        assert_eq!(shop.end_within(id, FOUND).await, Ok(format!("ship {id}")));
        assert_eq!(shop.instance(id).await.held, None);
    }
    shop.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rollback_in_the_same_process_continues_within_the_backoff() {
    let shop = Shop::open().await;
    let process = shop.deploy(Code::Old).await;
    shop.order("order-1").await;
    process.runtime.shutdown(Some(1_000)).await;
    let changed = run(process.provider, Code::Changed).await;
    shop.ship("order-1").await;
    sleep(LONG).await;
    changed.runtime.shutdown(Some(1_000)).await;
    let _old = run(changed.provider, Code::Old).await;
    let output = shop.end_within("order-1", BACKOFF + SECOND).await;
    assert_eq!(output, Ok("ship order-1".to_owned()));
    shop.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn with_half_of_the_deployment_changed_the_other_half_continues_all_instances() {
    let shop = Shop::open().await;
    let _old = shop.deploy(Code::Old).await;
    let ids: Vec<String> = (0..20).map(|number| format!("order-{number}")).collect();
    for id in &ids {
        shop.order(id).await;
    }
    let _changed = shop.deploy(Code::Changed).await;
    for id in &ids {
        shop.ship(id).await;
    }
    for id in &ids {
        let output = shop.end_within(id, BACKOFF).await;
        assert_eq!(output, Ok(format!("ship {id}")));
    }
    shop.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_orchestration_that_no_runtime_knows_waits_for_one_that_knows_it() {
    let shop = Shop::open().await;
    let _empty = shop.deploy(Code::Empty).await;
    shop.begin("order-1", "Order").await;
    let instance = shop.until_held("order-1").await;
    let hold = instance.held.expect("it is held");
    assert_eq!(
        (hold.cause, &*hold.orchestration),
        (HoldCause::Unregistered, "Order")
    );
    sleep(LONG).await;
    let begun = Instant::now();
    let _old = shop.deploy(Code::Old).await;
    shop.until_charged("order-1").await;
    assert!(begun.elapsed() < FOUND, "{:?}", begun.elapsed());
    shop.ship("order-1").await;
    let output = shop.end_within("order-1", FOUND).await;
    assert_eq!(output, Ok("ship order-1".to_owned()));
    shop.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_held_since_the_first_runtime_that_could_not_execute_it() {
    let shop = Shop::open().await;
    let _empty = shop.deploy(Code::Empty).await;
    shop.begin("order-1", "Order").await;
    let first = shop.until_held("order-1").await.held;
    let first = first.expect("it is held");
    sleep(LONG).await;
    let _other = shop.deploy(Code::Empty).await;
    sleep(LONG).await;
    let now = shop.instance("order-1").await.held;
    let now = now.expect("it is held");
    assert_ne!(now.by, first.by);
    assert_eq!(now.since, first.since);
    shop.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_long_polling_instances_are_held_too() {
    for (code, cause) in [
        (Code::Changed, HoldCause::Nondeterminism),
        (Code::Empty, HoldCause::Unregistered),
    ] {
        let shop = Shop::open().await;
        let old = shop.deploy(Code::Old).await;
        shop.order("order-1").await;
        old.stop().await;
        let legacy = shop
            .backend
            .provider_with(|config| config.long_polling = false);
        let changed = run(legacy.await, code).await;
        shop.ship("order-1").await;
        let hold = shop.until_held("order-1").await.held.expect("it is held");
        assert_eq!(hold.cause, cause);
        changed.stop().await;
        let legacy = shop
            .backend
            .provider_with(|config| config.long_polling = false);
        let _old = run(legacy.await, Code::Old).await;
        let output = shop.end_within("order-1", FOUND).await;
        assert_eq!(output, Ok("ship order-1".to_owned()));
        shop.backend.stop().await;
    }
}
