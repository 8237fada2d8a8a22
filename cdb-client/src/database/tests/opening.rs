//! What opening checks beside the definition: account, rights, throttling, index, gateway.

use std::time::Duration;

use cdb_model::Container as _;
use cdb_model::container::UniqueKey;
use cdb_model::limits::MAX_UNIQUE_KEYS;
use serde_json::{Value, json};

use super::bootstrap::{account, bootstrap, live, progress};
use crate::Bootstrap;
use crate::container::tests::fixture::{Fixture, client, two_ranges};
use crate::database::{BootstrapConfig, OnDifference};
use crate::error::ErrorKind;
use crate::transport::{Script, Step};

#[tokio::test(start_paused = true)]
async fn an_account_with_several_write_regions_is_refused_with_the_remedy() {
    for mode in [Bootstrap::CreateIfMissing, Bootstrap::VerifyOnly] {
        let script = Script::new([account(true)]);
        let database = client(&script).database("db");
        let error = database.bootstrap::<Fixture>("c", mode).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        let text = error.to_string();
        assert!(
            text.contains("several write regions (West US, East US)"),
            "{text}"
        );
        assert!(
            text.contains("--enable-multiple-write-locations false"),
            "{text}"
        );
    }
    let allowed = BootstrapConfig::from(Bootstrap::VerifyOnly).with_several_write_regions(true);
    let script = Script::new([account(true), live(|_| {})]);
    let database = client(&script).database("db");
    database.bootstrap::<Fixture>("c", allowed).await.unwrap();
}

#[tokio::test]
async fn a_model_beyond_a_limit_of_the_service_is_refused_without_a_request() {
    let mut model = Fixture::definition();
    let key = UniqueKey {
        paths: vec!["/a".to_owned()],
    };
    model.unique_key_policy.unique_keys = vec![key; MAX_UNIQUE_KEYS + 1];
    let script = Script::default();
    let database = client(&script).database("db");
    let config = BootstrapConfig::default();
    let opened = database.open::<Fixture>("c", &model, &config).await;
    let error = opened.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(script.requests().is_empty());
    let text = error.to_string();
    assert!(
        text.contains(
            "container `c` cannot store the documents of `Fixture`: its types declare 11 unique keys, the service \
             allows 10; declare fewer, or move types to another container"
        ),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_identity_that_may_not_read_the_account_can_open_a_container() {
    for refusal in [Step::refusal(403, 5301), Step::refusal(404, 0)] {
        let script = Script::new([refusal, live(|_| {})]);
        let database = client(&script).database("db");
        let opened = database.bootstrap::<Fixture>("c", Bootstrap::VerifyOnly);
        opened.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_key_fails_the_opening_at_once() {
    let script = Script::new((0..3).map(|_| Step::refusal(401, 0)));
    let started = tokio::time::Instant::now();
    let database = client(&script).database("db");
    let opened = database.bootstrap::<Fixture>("c", Bootstrap::CreateIfMissing);
    let error = opened.await.unwrap_err();
    assert_eq!(started.elapsed(), Duration::ZERO);
    let text = error.to_string();
    assert!(
        text.contains("the account refuses the key or token"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_opening_outlasts_throttling() {
    let throttled = || Step::refusal(429, 3210).header("x-ms-retry-after-ms", "1000");
    let mut steps = vec![throttled(), throttled(), Step::refusal(404, 1003)];
    steps.extend([throttled(), Step::status(201), throttled(), two_ranges()]);
    let started = tokio::time::Instant::now();
    bootstrap(Bootstrap::CreateIfMissing, steps)
        .await
        .0
        .unwrap();
    assert!(started.elapsed() >= Duration::from_secs(4));
}

#[tokio::test(start_paused = true)]
async fn an_opening_that_stays_throttled_fails_after_its_deadline() {
    let script = Script::new([account(false)]);
    script.extend((0..100).map(|_| Step::refusal(429, 3210).header("x-ms-retry-after-ms", "1000")));
    let database = client(&script).database("db");
    let started = tokio::time::Instant::now();
    let opened = database.bootstrap::<Fixture>("c", Bootstrap::CreateIfMissing);
    let error = opened.await.unwrap_err();
    assert!(error.is_throttled() && error.is_transient(), "{error}");
    let waited = started.elapsed();
    assert!((78..=80).contains(&waited.as_secs()), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn the_second_opener_waits_for_an_index_with_few_reads() {
    let extend =
        BootstrapConfig::from(Bootstrap::CreateIfMissing).with_on_difference(OnDifference::Extend);
    let mut steps: Vec<_> = (0..99).map(|_| progress("10")).collect();
    steps.push(progress("100"));
    let started = tokio::time::Instant::now();
    bootstrap(extend, steps).await.0.unwrap();
    // concepts-limits, "Request limits": 500 reads in five minutes, for all processes of the account.
    assert!(started.elapsed() >= Duration::from_secs(480));
    let warn = BootstrapConfig::from(Bootstrap::CreateIfMissing);
    bootstrap(warn, vec![progress("10")]).await.0.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_an_index_ends_at_the_configured_time() {
    let limit = Duration::from_secs(1);
    let extend = BootstrapConfig::from(Bootstrap::VerifyOnly)
        .with_on_difference(OnDifference::Extend)
        .with_index_timeout(limit);
    let steps = (0..2).map(|_| progress("40")).collect();
    let error = bootstrap(extend, steps).await.0.unwrap_err();
    assert!(error.is_transient(), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("is built to 40 % after 1 s") && text.contains("index_timeout"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_throttled_read_of_the_progress_means_that_the_index_is_being_built() {
    let extend =
        BootstrapConfig::from(Bootstrap::CreateIfMissing).with_on_difference(OnDifference::Extend);
    let script = Script::new([account(false), progress("10")]);
    // More than one call waits for.
    let throttled = Step::refusal(429, 3210).header("x-ms-retry-after-ms", "5000");
    script.extend(std::iter::repeat_n(throttled, 45));
    script.extend([progress("100")]);
    let database = client(&script).database("db");
    let opened = database.bootstrap::<Fixture>("c", extend);
    opened.await.unwrap();
    assert_eq!(script.steps_left(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_account_that_ignores_session_tokens_is_refused_with_the_remedy() {
    for (level, is_refused) in [
        ("Eventual", true),
        ("ConsistentPrefix", true),
        ("Session", false),
        ("BoundedStaleness", false),
        ("Strong", false),
    ] {
        let policy = json!({"defaultConsistencyLevel": level});
        let account = Step::json(&json!({ "userConsistencyPolicy": policy }));
        let script = Script::new([account.clone(), account]);
        script.extend((0..4).map(|_| live(|_| {})));
        let database = client(&script).database("db");
        let checked = database.container::<Fixture>("c").check_account().await;
        let opened = database
            .bootstrap::<Fixture>("c", Bootstrap::VerifyOnly)
            .await;
        for error in [checked.err(), opened.err()] {
            assert_eq!(error.is_some(), is_refused, "{level}: {error:?}");
            if let Some(error) = error {
                let text = error.to_string();
                assert!(
                    text.contains("--default-consistency-level Session"),
                    "{text}"
                );
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn members_that_are_null_count_as_missing() {
    let opened = |change: fn(&mut Value)| async move {
        let account = json!({"writableLocations": null, "enableMultipleWriteLocations": null,
            "userConsistencyPolicy": {"defaultConsistencyLevel": "Strong"}});
        let script = Script::new([Step::json(&account), live(change)]);
        let database = client(&script).database("db");
        database
            .bootstrap::<Fixture>("c", Bootstrap::VerifyOnly)
            .await
            .map(drop)
    };
    opened(|live| {
        for name in [
            "uniqueKeyPolicy",
            "computedProperties",
            "vectorEmbeddingPolicy",
            "fullTextPolicy",
            "conflictResolutionPolicy",
        ] {
            live[name] = Value::Null;
        }
        for name in [
            "compositeIndexes",
            "vectorIndexes",
            "fullTextIndexes",
            "spatialIndexes",
            "includedPaths",
            "automatic",
        ] {
            live["indexingPolicy"][name] = Value::Null;
        }
    })
    .await
    .unwrap();
    opened(|live| {
        live["fullTextPolicy"] = json!({"defaultLanguage": "en-US", "fullTextPaths": null});
    })
    .await
    .unwrap();
}

/// Answers to the two reads of the probe, with these charges.
fn probed(session: &str, latest: &str) -> [Step; 2] {
    [session, latest].map(|charge| Step::refusal(404, 0).header("x-ms-request-charge", charge))
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_ignores_the_consistency_of_a_read_is_recognized_by_its_charge() {
    for (session, latest, honoured) in [
        ("1", "2", Some(true)),
        ("1", "1", Some(false)),
        ("0", "0", None),
    ] {
        let script = Script::new(probed(session, latest));
        let container = client(&script).database("db").container::<Fixture>("c");
        let found = container
            .latest_committed()
            .honours_latest_committed()
            .await;
        assert_eq!(found.unwrap(), honoured);
        let strategies = script.sent_header("x-ms-cosmos-read-consistency-strategy");
        assert_eq!(strategies, [None, Some("LatestCommitted".to_owned())]);
    }
}

#[tokio::test(start_paused = true)]
async fn opening_probes_accounts_with_session_consistency_once() {
    let session =
        Step::json(&json!({"userConsistencyPolicy": {"defaultConsistencyLevel": "Session"}}));
    for probe in [probed("1", "1"), [Step::Hang, Step::Hang]] {
        let script = Script::new([session.clone(), live(|_| {})]);
        script.extend(probe);
        let database = client(&script).database("db");
        let opened = database.bootstrap::<Fixture>("c", Bootstrap::VerifyOnly);
        opened.await.unwrap();
        assert!(script.requests().len() > 2);
    }
}
