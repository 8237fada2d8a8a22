//! What arrives for held instances, and how they can be ended.

use cdb_provider::TreeScope;
use duroxide::{AppErrorKind, ErrorDetails, OrchestrationStatus};
use tokio::time::sleep;

use super::{BACKOFF, Code, FOUND, LONG, Shop};

#[tokio::test(start_paused = true)]
async fn a_held_instance_keeps_what_arrives() {
    let shop = Shop::open().await;
    let old = shop.deploy(Code::Old).await;
    shop.begin("order-1", "Order").await;
    // The end of the activity is the first message that the changed code does not take.
    shop.until_activity("order-1").await;
    old.stop().await;
    let changed = shop.deploy(Code::Changed).await;
    shop.until_held("order-1").await;
    shop.ship("order-1").await;
    sleep(LONG).await;
    let paused = changed
        .provider
        .pause("order-1", TreeScope::Alone, "ada")
        .await;
    assert_eq!(paused.expect("it is paused"), ["order-1"]);
    changed.stop().await;
    let old = shop.deploy(Code::Old).await;
    sleep(BACKOFF).await;
    assert!(
        shop.instance("order-1").await.held.is_some(),
        "it is paused"
    );
    ok!(old.provider.resume("order-1", TreeScope::Alone));
    // duroxide drops an event that arrives before its wait. The next one arrives after it.
    shop.until_charged("order-1").await;
    shop.ship("order-1").await;
    let output = shop.end_within("order-1", FOUND).await;
    assert_eq!(output, Ok("ship order-1".to_owned()));
    shop.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_held_instance_can_be_cancelled_behind_any_number_of_messages() {
    for code in [Code::Changed, Code::Empty] {
        let shop = Shop::open().await;
        let old = shop.deploy(Code::Old).await;
        shop.order("order-1").await;
        old.stop().await;
        let _next = shop.deploy(code).await;
        // More than a load reads of other instances, and more than a page holds.
        let body = "x".repeat(30_000);
        for _ in 0..150 {
            ok!(shop.client.raise_event("order-1", "ship", body.clone()));
        }
        shop.until_held("order-1").await;
        sleep(BACKOFF).await;
        cancel(&shop, "order-1").await;
        assert_cancelled(shop.end_within("order-1", 2 * FOUND).await);
        shop.backend.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_never_began_can_be_cancelled_while_it_is_held() {
    let shop = Shop::open().await;
    let _empty = shop.deploy(Code::Empty).await;
    shop.begin("order-1", "Order").await;
    shop.until_held("order-1").await;
    cancel(&shop, "order-1").await;
    assert_cancelled(shop.end_within("order-1", 2 * FOUND).await);
    let instance = shop.instance("order-1").await;
    assert_eq!(instance.orchestration_name, "Order");
    shop.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_cancellation_of_a_held_child_reaches_its_parent_and_of_a_held_parent_its_child() {
    for cancelled in ["main", "child"] {
        let shop = Shop::open().await;
        let old = shop.deploy(Code::Old).await;
        shop.begin("main", "Parent").await;
        shop.until_charged("child").await;
        old.stop().await;
        let _empty = shop.deploy(Code::Empty).await;
        cancel(&shop, cancelled).await;
        assert_cancelled(shop.end_within(cancelled, BACKOFF).await);
        if cancelled == "main" {
            assert_cancelled(shop.end_within("child", BACKOFF).await);
        } else {
            // The parent is held too. A runtime that knows it gives it the failure of its child.
            let _old = shop.deploy(Code::Old).await;
            let failed = shop.end_within("main", 2 * FOUND).await;
            let error = failed
                .expect_err("its child was cancelled")
                .display_message();
            assert!(error.contains("canceled"), "{error}");
        }
        shop.backend.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_held_instance_can_be_deleted() {
    let shop = Shop::open().await;
    let old = shop.deploy(Code::Old).await;
    shop.order("order-1").await;
    old.stop().await;
    let _changed = shop.deploy(Code::Changed).await;
    shop.ship("order-1").await;
    shop.until_held("order-1").await;
    let deleted = shop.client.delete_instance("order-1", true).await;
    assert_eq!(deleted.expect("it is deleted").instances_deleted, 1);
    sleep(2 * BACKOFF).await;
    assert!(matches!(
        shop.status("order-1").await,
        OrchestrationStatus::NotFound
    ));
    shop.backend.stop().await;
}

async fn cancel(shop: &Shop, id: &str) {
    ok!(shop.client.cancel_instance(id, "changed my mind"));
}

fn assert_cancelled(ended: Result<String, ErrorDetails>) {
    let details = ended.expect_err("it is cancelled");
    let kind = match &details {
        ErrorDetails::Application { kind, .. } => Some(kind),
        _ => None,
    };
    assert!(
        matches!(kind, Some(AppErrorKind::Cancelled { .. })),
        "{details:?}"
    );
}
