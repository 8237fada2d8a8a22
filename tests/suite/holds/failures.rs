//! What still fails.

use cdb_provider::OnNondeterminism;
use duroxide::providers::{Provider, WorkItem};
use duroxide::{ConfigErrorKind, ErrorDetails};

use super::{Code, FOUND, SECOND, Shop, run};

#[tokio::test(start_paused = true)]
async fn an_instance_fails_with_the_nondeterminism_of_its_child() {
    let shop = Shop::open().await;
    let _old = shop.deploy(Code::Old).await;
    shop.begin("main", "Parent").await;
    shop.until_charged("child").await;
    let details = ErrorDetails::Configuration {
        kind: ConfigErrorKind::Nondeterminism,
        resource: String::new(),
        message: Some("a child of an older version".to_owned()),
    };
    let failed = WorkItem::SubOrchFailed {
        parent_instance: "main".to_owned(),
        parent_execution_id: 1,
        parent_id: 2,
        details: details.clone(),
    };
    ok!(shop.provider.enqueue_for_orchestrator(failed, None));
    assert_eq!(shop.end_within("main", FOUND).await, Err(details));
    shop.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_no_code_can_take_fails_its_instance() {
    let shop = Shop::open().await;
    let _old = shop.deploy(Code::Old).await;
    shop.order("order-1").await;
    let unknown = crate::work_items::completion_of("order-1", 77, "");
    ok!(shop.provider.enqueue_for_orchestrator(unknown, None));
    let failed = shop
        .end_within("order-1", FOUND)
        .await
        .expect_err("no code can take it");
    assert!(
        failed.display_message().contains("no matching schedule"),
        "{failed:?}"
    );
    shop.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_is_told_to_fail_holds_no_orchestration_that_it_does_not_know() {
    let shop = Shop::open().await;
    let fail = shop.backend.provider_with(|config| {
        config.on_nondeterminism = OnNondeterminism::Fail;
    });
    let _empty = run(fail.await, Code::Empty).await;
    shop.begin("order-1", "Order").await;
    let failed = shop.end_within("order-1", SECOND * 900).await;
    failed.expect_err("no code knows it");
    assert_eq!(shop.instance("order-1").await.held, None);
    shop.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_is_told_to_fail_fails_the_instance_at_once() {
    let shop = Shop::open().await;
    let old = shop.deploy(Code::Old).await;
    shop.order("order-1").await;
    old.stop().await;
    let fail = shop.backend.provider_with(|config| {
        config.on_nondeterminism = OnNondeterminism::Fail;
    });
    let _changed = run(fail.await, Code::Changed).await;
    shop.ship("order-1").await;
    let failed = shop.end_within("order-1", FOUND).await;
    let failed = failed.expect_err("the code differs");
    let kind = ConfigErrorKind::Nondeterminism;
    assert!(matches!(failed, ErrorDetails::Configuration { kind: found, .. } if found == kind));
    shop.backend.stop().await;
}
