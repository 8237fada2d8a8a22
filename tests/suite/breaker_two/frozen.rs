//! Recreated and rewound instances.

use duroxide::OrchestrationStatus;
use duroxide::providers::ProviderAdmin as _;
use tokio::time::{Instant, sleep};

use super::{SECOND, Site};

/// An instance is deleted by force while its activity runs, and started again. The new activity has the
/// same number, and the same process runs it: it has to begin within B, 14.25 s.
#[tokio::test(start_paused = true)]
async fn the_activity_of_a_recreated_instance_does_not_wait_for_the_old_one() {
    let site = Site::open().await;
    site.begin("main", "Stepper", "100").await;
    sleep(SECOND * 5).await;
    assert_eq!(site.began(), ["100"]);
    let deleted = site.provider.delete_instance("main", true).await;
    deleted.expect("it is deleted");
    let begun = Instant::now();
    site.begin("main", "Stepper", "3").await;
    let end = site.end("main", SECOND * 300).await;
    assert_eq!(end, "3", "{:?}", site.began());
    assert!(begun.elapsed() < SECOND * 20, "{:?}", begun.elapsed());
    site.close().await;
}

/// 70 queued events arrive before the failure. 64 of them are in the execution, and the others wait in
/// the store. Two are taken, so the turn that fails has room for 64 and 65. The rewind drops that turn
/// and sends both again, behind 66 to 69 in the store: the order is … 63 66 67 68 69 64 65.
#[tokio::test(start_paused = true)]
async fn queued_events_keep_their_order_over_a_rewind() {
    let site = Site::open().await;
    let queue = async |data: String| {
        let queued = site.client.enqueue_event("main", "Orders", data).await;
        queued.expect("it is queued");
    };
    site.begin("main", "TakeFail", "").await;
    sleep(SECOND).await;
    for number in 0..70 {
        queue(number.to_string()).await;
    }
    let status = site.status("main").await;
    assert!(
        matches!(status, OrchestrationStatus::Running { .. }),
        "its activity takes five seconds"
    );
    let failed = site.end("main", SECOND * 90).await;
    assert!(failed.contains("broken"), "{failed}");
    site.repair();
    let plan = site.provider.rewind("main", "ada").await;
    let plan = plan.expect("it is rewound");
    sleep(SECOND * 8).await;
    queue("last".to_owned()).await;
    let end = site.end("main", SECOND * 90).await;
    let all: Vec<_> = (0..70).map(|number| number.to_string()).collect();
    assert!(
        end == all.join(" ") || !plan.raise_again.is_empty(),
        "{end}; {plan:?}"
    );
    site.close().await;
}
