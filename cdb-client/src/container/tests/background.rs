//! Background handles: the headers of their requests, and when these are sent.

use std::time::Duration;

use cdb_model::Document as _;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::fixture::{Fixture, KEY, fixture, numbers, ordered, two_ranges};
use super::shop::{Profile, Shop, profile, shop};
use crate::account::CosmosClientBuilder;
use crate::container::ContainerClient;
use crate::throughput::BackgroundConfig;
use crate::transport::{Script, Step};
use crate::{CosmosClient, MasterKey};

const PRIORITY: &str = "x-ms-cosmos-priority-level";
const BUCKET: &str = "x-ms-cosmos-throughput-bucket";

fn builder(script: &Script, background: BackgroundConfig) -> CosmosClientBuilder {
    CosmosClient::builder("https://account.documents.azure.com")
        .credential(MasterKey::new(KEY).unwrap())
        .transport(script.clone())
        .background(background)
}

fn found() -> Step {
    let body = json!({"id": "profile:ann", "type": "profile", "customer": "ann", "name": "Ann", "_etag": "\"1\"", "_ts": 1});
    Step::json(&body).header("x-ms-request-charge", "10")
}

fn throttled() -> Step {
    Step::refusal(429, 3200).header("x-ms-retry-after-ms", "20")
}

async fn read(shop: &ContainerClient<Shop>) -> Duration {
    let begun = Instant::now();
    let read = shop.read(&profile().key()).await;
    let read: Option<cdb_model::Stored<Profile>> = read.unwrap();
    assert!(read.is_some());
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn background_requests_have_a_low_priority_and_the_configured_bucket() {
    let script = Script::new([found(), found()]);
    let foreground = shop(&script);
    read(&foreground.in_background()).await;
    read(&foreground).await;
    assert_eq!(script.sent_header(PRIORITY), [Some("Low".to_owned()), None]);
    assert_eq!(script.sent_header(BUCKET), [None, None]);

    let script = Script::new([found(), found()]);
    let background = BackgroundConfig::default()
        .with_low_priority(false)
        .with_throughput_bucket(3);
    let client = builder(&script, background).build().unwrap();
    let foreground = client.database("db").container::<Shop>("c");
    read(&foreground.latest_committed().in_background()).await;
    read(&foreground.view::<Shop>()).await;
    assert_eq!(script.sent_header(PRIORITY), [None, None]);
    assert_eq!(script.sent_header(BUCKET), [Some("3".to_owned()), None]);
}

#[test]
fn invalid_settings_of_background_requests_are_refused() {
    let refuses = |background: BackgroundConfig, because: &str| {
        let error = builder(&Script::default(), background).build().unwrap_err();
        assert!(error.to_string().contains(because), "{error}");
    };
    let settings = BackgroundConfig::default();
    for share in [0.0, -1.0, 1.1, f64::NAN] {
        refuses(settings.with_share(share), "set it above 0 and at most 1");
    }
    for bucket in [0, 6] {
        refuses(
            settings.with_throughput_bucket(bucket),
            "use a bucket from 1 to 5",
        );
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_throttled_request_a_background_handle_sends_and_waits_like_others() {
    let script = Script::new((0..50).map(|_| found()));
    let background = shop(&script).in_background();
    for _ in 0..50 {
        assert_eq!(read(&background).await, Duration::ZERO);
    }
    assert_eq!(script.requests().len(), 50);
}

#[tokio::test(start_paused = true)]
async fn after_a_throttled_request_a_background_handle_waits_and_others_do_not() {
    let script = Script::new((0..20).map(|_| found()));
    let foreground = shop(&script);
    let background = foreground.in_background();
    for _ in 0..20 {
        read(&foreground).await;
    }
    script.extend([throttled(), found()]);
    read(&foreground).await;
    script.extend((0..100).map(|_| found()));
    // 210 RU were spent within a second, and 80 % of them are the rate: 16.8 reads of 10 RU.
    let begun = Instant::now();
    for _ in 0..40 {
        read(&background).await;
    }
    let seconds = begun.elapsed().as_secs_f64();
    assert!((2.2..2.7).contains(&seconds), "{seconds} s");
    for _ in 0..20 {
        assert_eq!(read(&foreground).await, Duration::ZERO);
    }
    let waited = read(&background).await;
    assert!(waited > Duration::from_millis(900), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_throttled_background_request_waits_for_the_governor_and_keeps_its_deadline() {
    let script = Script::new((0..12).map(|_| throttled()));
    script.extend([found()]);
    // Its pauses of 0.1 to 5 s are longer than the 30 s for its attempts.
    let waited = read(&shop(&script).in_background()).await;
    assert!(waited > Duration::from_secs(30), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn the_wait_of_a_background_request_does_not_count_as_silence_of_its_partition() {
    let script = Script::new([two_ranges(), numbers(&[1]), numbers(&[2])]);
    let foreground = fixture(&script);
    foreground.physical_partitions().await.unwrap();
    let governor = &foreground.context.governor;
    // Longer than the deadline of a request while other partitions answer.
    for _ in 0..5 {
        governor.throttled();
        drop(governor.admit().await);
    }
    governor.throttled();
    let begun = Instant::now();
    let query = foreground.in_background();
    let query = query.query(ordered(None)).row_by_row().all_available();
    assert_eq!(query.await.unwrap().rows.len(), 2);
    assert!(begun.elapsed() > Duration::from_secs(1));
    assert!(foreground.health().all_answer());
}

#[tokio::test(start_paused = true)]
async fn a_request_dropped_while_it_waits_after_a_throttled_attempt_is_no_silence() {
    let script = Script::new([two_ranges()]);
    let foreground = fixture(&script);
    let range = foreground.physical_partitions().await.unwrap()[0].clone();
    let slowly = || Step::refusal(429, 3200).header("x-ms-retry-after-ms", "2000");
    let dropped = async |handle: &ContainerClient<Fixture>| {
        let query = handle.query(ordered(None)).in_physical_partition(&range);
        let dropped = timeout(Duration::from_secs(3), query.all()).await;
        assert!(dropped.is_err());
        foreground.health().all_answer()
    };
    for handle in [foreground.in_background(), foreground.clone()] {
        script.extend([slowly(), slowly()]);
        assert!(dropped(&handle).await);
    }
    // The next attempt is silent.
    script.extend([slowly(), Step::Hang]);
    assert!(!dropped(&foreground).await);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_background_request_lets_the_next_one_go() {
    let script = Script::new([throttled(), found(), found()]);
    let foreground = shop(&script);
    let background = foreground.in_background();
    read(&foreground).await;
    let dropped = timeout(Duration::from_millis(1), read(&background)).await;
    assert!(dropped.is_err());
    // The rest of the pause, not 5 s.
    assert!(read(&background).await < Duration::from_millis(200));
}
