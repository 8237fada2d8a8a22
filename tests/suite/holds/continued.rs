//! An instance between two executions.

use cdb_provider::model::Document as _;
use duroxide::providers::{Provider as _, WorkItem};
use duroxide::{Event, EventKind};
use tokio::time::sleep;

use super::{Code, FOUND, SECOND, Shop};
use crate::harness::next_turn;
use crate::work_items::{metadata_of, started};

const ID: &str = "gather-1";

/// The provider hands out such a turn when `duroxide-cdb` wrote the instance, whose status proves nothing.
/// duroxide abandons the turn until the start is visible (duroxide 0.1.32,
/// `process_orchestration_item`). The orchestration is registered.
#[tokio::test(start_paused = true)]
async fn an_instance_whose_next_start_is_not_visible_yet_is_not_held() {
    let shop = Shop::open().await;
    shop.begin(ID, "Gather").await;
    let (_, token, _) = next_turn(&shop.provider, SECOND * 5).await;
    let continued = EventKind::OrchestrationContinuedAsNew {
        input: String::new(),
    };
    let events = (1..).zip([started("Gather", ""), continued]);
    let events = events.map(|(id, kind)| Event::with_event_id(id, ID, 1, None, kind));
    let mut metadata = metadata_of("Gather");
    metadata.status = Some("ContinuedAsNew".to_owned());
    let acked = shop.provider.ack_orchestration_item(
        &token,
        1,
        events.collect(),
        vec![],
        vec![],
        metadata,
        vec![],
    );
    acked.await.expect("the turn is committed");
    let mut instance = shop.instance(ID).await;
    instance.history_documents = None;
    ok!(shop.provider.container().run(instance.replace()));
    ok!(shop.client.raise_event(ID, "Go", ""));
    let _changed = shop.deploy(Code::Changed).await;
    sleep(SECOND * 5).await;
    assert_eq!(shop.instance(ID).await.held, None);
    let start = WorkItem::ContinueAsNew {
        instance: ID.to_owned(),
        orchestration: "Gather".to_owned(),
        input: String::new(),
        version: Some("2.0.0".to_owned()),
        carry_forward_events: Vec::new(),
        initial_custom_status: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
    };
    ok!(shop.provider.enqueue_for_orchestrator(start, None));
    ok!(shop.client.enqueue_event(ID, "approvals", "last"));
    let output = shop.end_within(ID, FOUND).await;
    assert_eq!(output, Ok("last ".to_owned()));
    shop.backend.stop().await;
}
