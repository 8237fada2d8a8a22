//! What held instances cost, and that other instances do not wait for them.

use std::time::Duration;

use cdb_emulator::{Emulator, OperationKind};
use tokio::time::sleep;

use super::{BACKOFF, Code, SECOND, Shop};

#[tokio::test(start_paused = true)]
async fn a_held_instance_costs_no_write_and_does_not_speed_up_the_polls() {
    let shop = Shop::open().await;
    let emulator = or_skip!(shop.backend.emulator(), "needs the emulator");
    let old = shop.deploy(Code::Old).await;
    shop.order("order-1").await;
    old.stop().await;
    let _changed = shop.deploy(Code::Changed).await;
    sleep(BACKOFF).await;
    let idle = requests(emulator, 2 * BACKOFF).await;
    shop.ship("order-1").await;
    shop.until_held("order-1").await;
    sleep(2 * BACKOFF).await;
    let held = requests(emulator, 2 * BACKOFF).await;
    assert_eq!(held.0, 0, "writes");
    // Each attempt, one a minute, is a load and a poll of each queue. The probes that find the messages
    // are not followed by polls.
    assert!(held.1 <= idle.1 + 40, "{} reads, idle: {}", held.1, idle.1);
    shop.backend.stop().await;
}

#[tokio::test(start_paused = true)]
async fn many_held_instances_do_not_delay_the_others() {
    let shop = Shop::open().await;
    let old = shop.deploy(Code::Old).await;
    let ids: Vec<String> = (0..100).map(|number| format!("order-{number}")).collect();
    for id in &ids {
        shop.begin(id, "Order").await;
    }
    for id in &ids {
        shop.until_charged(id).await;
    }
    old.stop().await;
    let _changed = shop.deploy(Code::Changed).await;
    for id in &ids {
        shop.ship(id).await;
    }
    for id in &ids {
        shop.until_held(id).await;
    }
    for number in 0..20 {
        let id = format!("quick-{number}");
        shop.begin(&id, "Quick").await;
        let output = shop.end_within(&id, SECOND * 2).await;
        assert_eq!(output, Ok("quick".to_owned()));
        sleep(SECOND * 7).await;
    }
    for id in &ids {
        assert!(shop.instance(id).await.held.is_some(), "{id} is still held");
    }
    shop.backend.stop().await;
}

/// Returns the writes and the reads within a time.
async fn requests(emulator: &Emulator, time: Duration) -> (u64, u64) {
    emulator.reset_requests();
    sleep(time).await;
    let counts = emulator.requests().counts;
    let of = |kinds: &[OperationKind]| {
        let counts = kinds.iter().filter_map(|kind| counts.get(kind));
        counts.sum()
    };
    let writes = [
        OperationKind::Batch,
        OperationKind::Patch,
        OperationKind::Replace,
        OperationKind::Create,
        OperationKind::Delete,
    ];
    (
        of(&writes),
        of(&[OperationKind::Query, OperationKind::Read]),
    )
}
