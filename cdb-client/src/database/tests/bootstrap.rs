//! Bootstrap: the requests of each mode, and the text of errors.

use serde_json::{Value, json};

use crate::Bootstrap;
use crate::container::tests::fixture::{Fixture, client, two_ranges};
use crate::database::{BootstrapConfig, ContainerChange, OnDifference, Throughput};
use crate::error::{Error, ErrorKind};
use crate::transport::{Delivery, Script, Step};

pub(super) fn live(change: impl FnOnce(&mut Value)) -> Step {
    let mut live = json!({
        "id": "c", "_rid": "x", "_etag": "\"1\"", "_ts": 1,
        "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
        "defaultTtl": -1,
        "indexingPolicy": {
            "indexingMode": "consistent", "automatic": true, "includedPaths": [],
            "excludedPaths": [{"path": "/*"}, {"path": "/\"_etag\"/?"}]
        },
    });
    change(&mut live);
    Step::json(&live)
}

pub(super) async fn bootstrap(
    config: impl Into<BootstrapConfig> + Send,
    steps: Vec<Step>,
) -> (Result<(), Error>, Script) {
    let config = config.into();
    let script = Script::default();
    if config.mode != Bootstrap::Skip {
        script.extend([account(false)]);
    }
    script.extend(steps);
    let result = client(&script)
        .database("db")
        .bootstrap::<Fixture>("c", config)
        .await;
    assert_eq!(script.steps_left(), 0);
    (result.map(drop), script)
}

/// The document of an account whose reads need no probe.
pub(super) fn account(several_write_regions: bool) -> Step {
    let region = |name: &str| json!({"name": name, "databaseAccountEndpoint": "https://x.documents.azure.com/"});
    Step::json(&json!({
        "writableLocations": [region("West US"), region("East US")],
        "readableLocations": [region("West US"), region("East US")],
        "enableMultipleWriteLocations": several_write_regions,
        "userConsistencyPolicy": {"defaultConsistencyLevel": "BoundedStaleness"},
    }))
}

/// Returns the requests after that for the account document.
fn sent(script: &Script) -> Vec<String> {
    script
        .requests()
        .iter()
        .skip(1)
        .map(|request| {
            let path = request
                .url
                .trim_start_matches("https://account.documents.azure.com");
            format!("{} {path}", request.method)
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_missing_database_and_container_are_created_from_the_model() {
    let config = BootstrapConfig::from(Bootstrap::CreateIfMissing)
        .with_throughput(Throughput::Autoscale(1000));
    let steps = vec![
        Step::refusal(404, 1003),
        Step::refusal(404, 1003),
        Step::status(201),
        Step::status(201),
        Step::refusal(404, 1003),
        two_ranges(),
    ];
    let (result, script) = bootstrap(config, steps).await;
    result.unwrap();
    assert_eq!(
        sent(&script),
        [
            "GET /dbs/db/colls/c",
            "POST /dbs/db/colls",
            "POST /dbs",
            "POST /dbs/db/colls",
            "GET /dbs/db/colls/c/pkranges",
            "GET /dbs/db/colls/c/pkranges",
        ]
    );
    let creation = &script.requests()[4];
    let body: Value = serde_json::from_slice(&creation.body).unwrap();
    assert_eq!(body["id"], "c");
    assert_eq!(body["partitionKey"]["paths"], json!(["/pk"]));
    assert_eq!(body["defaultTtl"], -1);
    assert_eq!(
        creation.headers["x-ms-cosmos-offer-autopilot-settings"],
        r#"{"maxThroughput":1000}"#
    );
}

#[tokio::test(start_paused = true)]
async fn no_throughput_is_sent_unless_configured() {
    let steps = vec![Step::refusal(404, 0), Step::status(201), two_ranges()];
    let (result, script) = bootstrap(Bootstrap::CreateIfMissing, steps).await;
    result.unwrap();
    for name in [
        "x-ms-offer-throughput",
        "x-ms-cosmos-offer-autopilot-settings",
    ] {
        assert!(script.sent_header(name).iter().all(Option::is_none));
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_another_process_creates_is_checked_once_it_is_ready() {
    let steps = vec![
        Step::refusal(404, 0),
        Step::refusal(409, 0),
        Step::refusal(404, 1003),
        two_ranges(),
        live(|_| {}),
    ];
    let (result, script) = bootstrap(Bootstrap::CreateIfMissing, steps).await;
    result.unwrap();
    assert_eq!(
        sent(&script),
        [
            "GET /dbs/db/colls/c",
            "POST /dbs/db/colls",
            "GET /dbs/db/colls/c/pkranges",
            "GET /dbs/db/colls/c/pkranges",
            "GET /dbs/db/colls/c",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_existing_container_costs_one_request_beside_the_account_document() {
    let (result, script) = bootstrap(Bootstrap::CreateIfMissing, vec![live(|_| {})]).await;
    result.unwrap();
    assert_eq!(sent(&script), ["GET /dbs/db/colls/c"]);
}

#[tokio::test(start_paused = true)]
async fn skip_sends_nothing() {
    let (result, script) = bootstrap(Bootstrap::Skip, vec![]).await;
    result.unwrap();
    assert!(script.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn verify_only_creates_nothing_and_names_the_missing_container() {
    let (result, _) = bootstrap(Bootstrap::VerifyOnly, vec![Step::refusal(404, 1003)]).await;
    let error = result.unwrap_err();
    assert!(error.is_not_found());
    let text = error.to_string();
    assert!(
        text.contains("container `c` of database `db` does not exist; create it"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_named_with_the_remedy() {
    let steps = vec![Step::refusal(404, 0), Step::refusal(403, 5300)];
    let error = bootstrap(Bootstrap::CreateIfMissing, steps)
        .await
        .0
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden);
    let text = error.to_string();
    assert!(
        text.contains("may not create container (container `c` of database `db`)"),
        "{text}"
    );
    assert!(
        text.contains("an administrator has to create database and container")
            && text.contains("partition key /pk, default time to live -1"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_error_names_the_role_that_an_identity_lacks() {
    let steps = vec![Step::refusal(403, 5301)];
    let error = bootstrap(Bootstrap::VerifyOnly, steps).await.0.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("may not read container"), "{text}");
    assert!(
        text.contains("`Cosmos DB Built-in Data Contributor`"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn another_partition_key_is_refused_by_every_mode_that_reads() {
    for mode in [Bootstrap::CreateIfMissing, Bootstrap::VerifyOnly] {
        let other = live(|live| live["partitionKey"]["paths"] = json!(["/tenant"]));
        let error = bootstrap(mode, vec![other]).await.0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ContainerDiffers);
        let text = error.to_string();
        assert!(
            text.contains("its partition key is /tenant, the model's is /pk"),
            "{text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn other_differences_warn_or_fail_as_configured() {
    let no_ttl = || {
        vec![live(|live| {
            live.as_object_mut().unwrap().remove("defaultTtl");
        })]
    };
    bootstrap(Bootstrap::VerifyOnly, no_ttl()).await.0.unwrap();
    let strict =
        BootstrapConfig::from(Bootstrap::VerifyOnly).with_on_difference(OnDifference::Fail);
    let error = bootstrap(strict, no_ttl()).await.0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ContainerDiffers);
    assert!(
        error
            .to_string()
            .contains("time to live is off, the model's is set by each document"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn differences_of_the_indexing_policy_are_reported_by_path() {
    let older = live(|live| {
        live["indexingPolicy"]["includedPaths"] = json!([{"path": "/gone/?"}]);
        live["uniqueKeyPolicy"] = json!({"uniqueKeys": [{"paths": ["/email"]}]});
    });
    let script = Script::new([older]);
    let database = client(&script).database("db");
    let differences = database.differences::<Fixture>("c").await.unwrap();
    let said: Vec<String> = differences.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[0].contains("unique keys lack [] and have [[\"/email\"]]"),
        "{said:?}"
    );
    assert!(said[1].contains("`/gone/?` is indexed"), "{said:?}");
    assert!(differences[0].is_fatal() && !differences[0].is_changeable());
    assert!(!differences[1].is_fatal() && differences[1].is_changeable());
}

#[tokio::test(start_paused = true)]
async fn a_container_with_other_unique_keys_is_refused() {
    let keyed = live(|live| {
        live["uniqueKeyPolicy"] = json!({"uniqueKeys": [{"paths": ["/email"]}]});
    });
    for mode in [Bootstrap::VerifyOnly, Bootstrap::CreateIfMissing] {
        let error = bootstrap(mode, vec![keyed.clone()]).await.0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ContainerDiffers);
        assert!(error.to_string().contains("[[\"/email\"]]"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_name_is_refused_before_anything_is_sent() {
    let script = Script::default();
    let database = client(&script).database("a/b");
    let error = database
        .bootstrap::<Fixture>("c", Bootstrap::CreateIfMissing)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    for (database, container) in [("..", "c"), ("a", ".."), ("a", "b#c"), ("", "c")] {
        let database = client(&script).database(database);
        let change = ContainerChange::default();
        for refused in [
            database.differences::<Fixture>(container).await.map(drop),
            database.definition::<Fixture>(container).await.map(drop),
            database.indexing_progress(container).await.map(drop),
            database.change_container(container, &change).await,
        ] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Configuration);
        }
    }
    assert!(script.requests().is_empty());
}

/// A container of another program: with another index, without expiry, and with members that the
/// client does not know.
fn foreign_container() -> Step {
    live(|live| {
        live.as_object_mut().unwrap().remove("defaultTtl");
        live["indexingPolicy"]["includedPaths"] = json!([{"path": "/theirs/?"}]);
        live["indexingPolicy"]["vectorIndexes"] = json!([{"path": "/v", "type": "flat"}]);
        live["conflictResolutionPolicy"] = json!({"mode": "LastWriterWins"});
    })
}

pub(super) fn progress(percent: &str) -> Step {
    let header = "x-ms-documentdb-collection-index-transformation-progress";
    live(|_| {}).header(header, percent)
}

#[tokio::test(start_paused = true)]
async fn missing_indexes_are_added_and_nothing_is_removed() {
    let extend =
        BootstrapConfig::from(Bootstrap::CreateIfMissing).with_on_difference(OnDifference::Extend);
    let steps = vec![
        foreign_container(),
        foreign_container(),
        // Another process changes it in between.
        Step::refusal(412, 0),
        foreign_container(),
        Step::status(200),
        progress("40"),
        progress("100"),
    ];
    let (result, script) = bootstrap(extend, steps).await;
    result.unwrap();
    let replacement = &script.requests()[5];
    assert_eq!(replacement.method, "PUT");
    assert_eq!(replacement.headers["if-match"], "\"1\"");
    let body: Value = serde_json::from_slice(&replacement.body).unwrap();
    assert_eq!(body["defaultTtl"], -1);
    assert_eq!(
        body["indexingPolicy"]["includedPaths"],
        json!([{"path": "/theirs/?"}])
    );
    assert_eq!(
        body["indexingPolicy"]["vectorIndexes"],
        json!([{"path": "/v", "type": "flat"}])
    );
    assert_eq!(
        body["conflictResolutionPolicy"],
        json!({"mode": "LastWriterWins"})
    );
    assert_eq!(body["partitionKey"]["paths"], json!(["/pk"]));
}

#[tokio::test(start_paused = true)]
async fn an_extension_with_a_lost_answer_is_read_before_it_is_repeated() {
    let extend =
        BootstrapConfig::from(Bootstrap::CreateIfMissing).with_on_difference(OnDifference::Extend);
    let steps = vec![
        foreign_container(),
        foreign_container(),
        Step::NoAnswer(Delivery::Unknown),
        // The replacement was not executed, so it is sent again.
        foreign_container(),
        Step::NoAnswer(Delivery::Unknown),
        // The second replacement was executed.
        live(|_| {}),
        progress("100"),
    ];
    let (result, script) = bootstrap(extend, steps).await;
    result.unwrap();
    let replacements = script.requests().into_iter();
    assert_eq!(replacements.filter(|sent| sent.method == "PUT").count(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_extension_without_answers_fails_after_five_attempts() {
    let extend =
        BootstrapConfig::from(Bootstrap::CreateIfMissing).with_on_difference(OnDifference::Extend);
    let mut steps = vec![foreign_container()];
    for _ in 0..5 {
        steps.extend([foreign_container(), Step::NoAnswer(Delivery::Unknown)]);
    }
    let error = bootstrap(extend, steps).await.0.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_error_of_an_identity_without_the_right_names_the_additions() {
    let extend = |mode| BootstrapConfig::from(mode).with_on_difference(OnDifference::Extend);
    let verifying = (Bootstrap::VerifyOnly, vec![foreign_container()]);
    let forbidden = vec![
        foreign_container(),
        foreign_container(),
        Step::refusal(403, 5300),
    ];
    for (mode, steps) in [verifying, (Bootstrap::CreateIfMissing, forbidden)] {
        let error = bootstrap(extend(mode), steps).await.0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ContainerDiffers);
        let text = error.to_string();
        let expected = "an administrator has to add: its default time to live is off";
        assert!(text.contains(expected), "{text}");
    }
}
