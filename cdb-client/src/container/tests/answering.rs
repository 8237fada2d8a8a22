//! Work that its caller leaves.

use std::time::Duration;

use cdb_model::PartitionKey;
use http::Method;
use tokio::time::Instant;

use super::fixture::{fixture, two_ranges};
use crate::error::RequestKind;
use crate::protocol::Request;
use crate::transport::{Script, Step};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn work_is_left_when_its_write_has_no_answer_although_reads_are_answered() {
    let missing = || Step::refusal(404, 0);
    let listed = [two_ranges(), Step::Hang];
    let script = Script::new(listed.into_iter().chain([missing(), missing(), missing()]));
    let container = fixture(&script);
    container.physical_partitions().await.unwrap();
    let key = PartitionKey::from("a");
    let context = &container.context;
    let request = Request::new(RequestKind::Create, Method::POST, context.resource.items());
    let request = request.in_partition(&key).unwrap();
    let begun = Instant::now();
    let left = container
        .while_answering(&key, context.send(&request))
        .await;
    assert_eq!(left.unwrap_err(), SECOND);
    assert_eq!(begun.elapsed(), SECOND * 3 / 2);
    assert_eq!(container.backoff_of(&key), Some(SECOND));
    // The write goes on, because its answer tells how long the partition takes.
    tokio::time::sleep(SECOND * 5).await;
    let behind = container.behind(&key).expect("it goes on");
    assert!(!behind.is_slow);
    tokio::time::sleep(SECOND * 5).await;
    assert_eq!(container.behind(&key), None);
}
