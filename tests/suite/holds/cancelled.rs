//! A held instance that is cancelled and rewound: nothing that arrived is lost.

use cdb_provider::RewindResult;
use tokio::time::sleep;

use super::{Code, FOUND, SECOND, Shop};

const ID: &str = "approval-1";

async fn queue(shop: &Shop, data: &str) {
    ok!(shop.client.enqueue_event(ID, "approvals", data));
}

/// Cancels the held instance, and rewinds it. Returns the plan.
async fn cancel_and_rewind(shop: &Shop) -> RewindResult {
    ok!(shop.client.cancel_instance(ID, "changed my mind"));
    let ended = shop.end_within(ID, 2 * FOUND).await;
    ended.expect_err("it is cancelled");
    let plan = shop.provider.plan_rewind(ID).await.expect("a plan");
    let rewound = shop.provider.rewind(ID, "ada").await;
    assert_eq!(rewound.expect("it is rewound"), plan);
    plan
}

async fn assert_approved(shop: &Shop) {
    let _old = shop.deploy(Code::Old).await;
    let output = shop.end_within(ID, 4 * FOUND).await;
    assert_eq!(output, Ok("a b c".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn queued_events_of_a_held_instance_outlive_its_cancellation() {
    let shop = Shop::open().await;
    let old = shop.deploy(Code::Old).await;
    shop.begin(ID, "Approval").await;
    shop.until_charged(ID).await;
    old.stop().await;
    let changed = shop.deploy(Code::Changed).await;
    queue(&shop, "a").await;
    shop.until_held(ID).await;
    queue(&shop, "b").await;
    sleep(SECOND).await;
    queue(&shop, "c").await;
    let plan = cancel_and_rewind(&shop).await;
    assert_eq!(plan.events, ["approvals", "approvals", "approvals"]);
    changed.stop().await;
    assert_approved(&shop).await;
    shop.backend.stop().await;
}

/// The result of the activity is the first message that the changed code does not take.
#[tokio::test(start_paused = true)]
async fn a_result_for_a_held_instance_outlives_its_cancellation() {
    let shop = Shop::open().await;
    let old = shop.deploy(Code::Old).await;
    shop.begin(ID, "Approval").await;
    shop.until_activity(ID).await;
    old.stop().await;
    let changed = shop.deploy(Code::Changed).await;
    shop.until_held(ID).await;
    for data in ["a", "b", "c"] {
        queue(&shop, data).await;
    }
    let plan = cancel_and_rewind(&shop).await;
    assert_eq!(plan.activities, [""; 0]);
    assert_eq!(plan.messages, 4);
    changed.stop().await;
    assert_approved(&shop).await;
    shop.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn queued_events_outlive_the_cancellation_of_a_held_instance_that_never_began() {
    let shop = Shop::open().await;
    let empty = shop.deploy(Code::Empty).await;
    shop.begin(ID, "Approval").await;
    queue(&shop, "a").await;
    shop.until_held(ID).await;
    for data in ["b", "c"] {
        queue(&shop, data).await;
    }
    cancel_and_rewind(&shop).await;
    empty.stop().await;
    assert_approved(&shop).await;
    shop.backend.stop().await;
}

/// The process lacks the version that the first execution continues with, so that nothing records the
/// events that it carries. The others wait in the store.
#[tokio::test(start_paused = true)]
async fn events_that_wait_for_room_outlive_the_cancellation_of_a_held_instance() {
    let shop = Shop::open().await;
    let old = shop.deploy(Code::Old).await;
    shop.begin(ID, "Gather").await;
    sleep(SECOND).await;
    let numbers: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    for number in &numbers {
        queue(&shop, number).await;
    }
    sleep(3 * SECOND).await;
    ok!(shop.client.raise_event(ID, "Go", ""));
    shop.until_held(ID).await;
    queue(&shop, "last").await;
    cancel_and_rewind(&shop).await;
    old.stop().await;
    let _changed = shop.deploy(Code::Changed).await;
    let output = shop.end_within(ID, 4 * FOUND).await;
    assert_eq!(output, Ok(format!("{} last ", numbers.join(" "))));
    shop.backend.stop().await;
}
