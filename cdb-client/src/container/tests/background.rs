//! Background handles: the headers of their requests, and when these are sent.

use std::time::Duration;

use cdb_model::Document as _;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::fixture::{KEY, fixture, numbers, ordered, two_ranges};
use super::shop::{Profile, Shop, profile, shop};
use crate::config::CosmosClientBuilder;
use crate::container::ContainerClient;
use crate::{BackgroundConfig, CosmosClient, MasterKey, Script, Step};

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

/// The answers to the requests for the container and for the offers.
fn offer(units: u32) -> [Step; 2] {
    let offer = json!({"resource": "dbs/a/colls/b/", "content": {"offerThroughput": units}});
    let other = json!({"resource": "dbs/a/colls/c/", "content": {"offerThroughput": 7}});
    let container =
        json!({"id": "c", "_self": "dbs/a/colls/b/", "_rid": "b", "_etag": "\"1\"", "_ts": 1});
    [
        Step::json(&container),
        Step::json(&json!({"Offers": [other, offer], "_count": 2})),
    ]
}

async fn read(shop: &ContainerClient<Shop>) -> Duration {
    let begun = Instant::now();
    let read = shop.read(&profile().key()).await;
    let read: Option<cdb_model::Stored<Profile>> = read.unwrap();
    assert!(read.is_some());
    begun.elapsed()
}

/// Returns the paths of the requests so far, without the host.
fn paths(script: &Script) -> Vec<String> {
    let requests = script.requests();
    let paths = requests.iter().filter_map(|request| {
        let (_, path) = request.url.split_once(".com/")?;
        Some(path.rsplit('/').next()?.to_owned())
    });
    paths.collect()
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
async fn after_a_throttled_request_background_handles_read_the_offer_and_stay_below_the_share() {
    let script = Script::new([throttled(), found()]);
    let foreground = shop(&script);
    let background = foreground.in_background();
    read(&foreground).await;
    script.extend(offer(100));
    script.extend((0..100).map(|_| found()));
    read(&background).await;
    assert_eq!(
        paths(&script)[2..],
        ["c", "offers", "profile%3Aann"],
        "the offer is read once"
    );
    // 80 RU/s of 100, 10 RU each.
    let begun = Instant::now();
    for _ in 0..40 {
        read(&background).await;
    }
    let seconds = begun.elapsed().as_secs_f64();
    assert!((4.5..5.5).contains(&seconds), "{seconds} s");
    for _ in 0..20 {
        assert_eq!(read(&foreground).await, Duration::ZERO);
    }
    assert!(
        read(&background).await > Duration::from_secs(1),
        "after others"
    );
    assert_eq!(script.sent_header(PRIORITY)[2..4], [None, None]);
}

#[tokio::test(start_paused = true)]
async fn a_credential_without_the_right_to_offers_gets_pauses_only() {
    let script = Script::new([throttled(), found(), Step::refusal(403, 5302)]);
    let foreground = shop(&script);
    let background = foreground.in_background();
    read(&foreground).await;
    script.extend((0..20).map(|_| found()));
    assert!(read(&background).await > Duration::from_millis(50));
    for _ in 0..19 {
        assert_eq!(read(&background).await, Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn an_offer_that_is_not_answered_delays_a_background_request_by_five_seconds() {
    let script = Script::new([throttled(), found(), Step::Hang, found()]);
    let foreground = shop(&script);
    read(&foreground).await;
    let waited = read(&foreground.in_background()).await;
    assert_eq!(waited, Duration::from_secs(5));
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
    assert!(governor.wants_offer(), "the test needs no offer");
    let begun = Instant::now();
    let query = foreground.in_background();
    let query = query.query(ordered(None)).row_by_row().all_available();
    assert_eq!(query.await.unwrap().rows.len(), 2);
    assert!(begun.elapsed() > Duration::from_secs(1));
    assert!(foreground.health().all_answer());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_background_request_lets_the_next_one_go() {
    let script = Script::new([throttled(), found(), Step::refusal(403, 5302), found()]);
    let foreground = shop(&script);
    let background = foreground.in_background();
    read(&foreground).await;
    let dropped = timeout(Duration::from_millis(1), read(&background)).await;
    assert!(dropped.is_err());
    assert!(read(&background).await < Duration::from_millis(100));
}
