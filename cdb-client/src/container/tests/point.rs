//! Point operations: their requests, and their results after a lost answer.

use cdb_model::{Document as _, ETag, PartitionKey, Patch};
use serde_json::json;

use super::fixture::{listing, one_range};
use super::shop::{Order, Profile, order, profile, shop};
use crate::error::{Error, ErrorKind};
use crate::measure_charge;
use crate::transport::{Delivery, Script, Step};

const ITEMS: &str = "https://account.documents.azure.com/dbs/db/colls/c/docs";

fn written(code: u16) -> Step {
    Step::status(code)
        .header("etag", "\"v2\"")
        .header("x-ms-request-charge", "6.5")
}

fn lost() -> Step {
    Step::NoAnswer(Delivery::Unknown)
}

fn etag() -> ETag {
    ETag::new("\"v1\"")
}

#[tokio::test(start_paused = true)]
async fn create_sends_the_stored_form_and_the_partition_key() {
    let script = Script::new([written(201)]);
    let (stored, charge) = measure_charge(shop(&script).run(order(7).create())).await;
    let stored = stored.unwrap();
    assert_eq!(
        (stored.id.as_str(), stored.etag.as_str()),
        ("order:7", "\"v2\"")
    );
    assert!((charge - 6.5).abs() < f64::EPSILON);
    let request = &script.requests()[0];
    assert_eq!(
        (request.method.as_str(), request.url.as_str()),
        ("POST", ITEMS)
    );
    assert_eq!(
        request.headers["x-ms-documentdb-partitionkey"],
        r#"["ann"]"#
    );
    assert_eq!(request.headers["prefer"], "return=minimal");
    assert!(!request.headers.contains_key("x-ms-documentdb-is-upsert"));
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(
        body,
        json!({"id": "order:7", "type": "order", "customer": "ann", "number": 7, "status": "new", "viewCount": 0})
    );
}

#[tokio::test(start_paused = true)]
async fn unconditional_writes_are_retried_after_a_lost_answer() {
    let script = Script::new([
        lost(),
        written(200),
        lost(),
        written(200),
        lost(),
        Step::status(204),
    ]);
    let container = shop(&script);
    container.run(order(7).upsert()).await.unwrap();
    container.run(profile().replace()).await.unwrap();
    container.run(profile().key().delete()).await.unwrap();
    let methods: Vec<String> = script
        .requests()
        .iter()
        .map(|r| r.method.to_string())
        .collect();
    assert_eq!(methods, ["POST", "POST", "PUT", "PUT", "DELETE", "DELETE"]);
    assert_eq!(
        script.requests()[0].headers["x-ms-documentdb-is-upsert"],
        "True"
    );
}

#[tokio::test(start_paused = true)]
async fn conditional_writes_are_not_retried_after_a_lost_answer() {
    let script = Script::new([lost(), lost(), lost(), lost()]);
    let container = shop(&script);
    let patch = Patch::<Profile>::new().set(Profile::NAME, "Anna");
    let outcomes: [Result<(), Error>; 4] = [
        container
            .run(profile().replace().if_match(&etag()))
            .await
            .map(drop),
        container
            .run(profile().upsert().if_match(&etag()))
            .await
            .map(drop),
        container
            .run(profile().key().delete().if_match(&etag()))
            .await,
        container
            .run(patch.at(&profile().key()).if_match(&etag()))
            .await
            .map(drop),
    ];
    for outcome in outcomes {
        assert!(outcome.unwrap_err().is_ambiguous());
    }
    assert_eq!(
        script.sent_header("if-match"),
        vec![Some("\"v1\"".to_owned()); 4]
    );
}

#[tokio::test(start_paused = true)]
async fn a_delete_succeeds_when_the_document_is_missing_after_a_lost_answer() {
    let script = Script::new([lost(), Step::refusal(404, 0), Step::refusal(404, 0)]);
    let container = shop(&script);
    container.run(profile().key().delete()).await.unwrap();
    let error = container.run(profile().key().delete()).await.unwrap_err();
    assert!(error.is_not_found());
}

#[tokio::test(start_paused = true)]
async fn a_missing_container_is_an_error_and_a_missing_document_is_none() {
    let found = Step::json(&json!({
        "id": "profile:ann", "type": "profile", "customer": "ann", "name": "Ann",
        "_etag": "\"v3\"", "_ts": 1_500_000_000
    }));
    let script = Script::new([found, Step::refusal(404, 0), Step::refusal(404, 1003)]);
    let container = shop(&script);
    let stored = container.read(&profile().key()).await.unwrap().unwrap();
    assert_eq!(
        (stored.document, stored.etag.as_str()),
        (profile(), "\"v3\"")
    );
    assert_eq!(script.requests()[0].url, format!("{ITEMS}/profile%3Aann"));
    assert!(container.read(&profile().key()).await.unwrap().is_none());
    assert!(
        container
            .read(&profile().key())
            .await
            .unwrap_err()
            .is_not_found()
    );
}

#[tokio::test(start_paused = true)]
async fn an_accepted_write_without_an_etag_is_ambiguous() {
    let script = Script::new([Step::status(201), Step::status(200)]);
    for write in [
        shop(&script).run(order(1).create()).await,
        shop(&script).run(order(1).upsert()).await,
    ] {
        let error = write.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol);
        assert!(error.is_ambiguous(), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_about_an_unreadable_answer_names_the_call() {
    let script = Script::new([Step::status(200).body("oops"), Step::status(200).body("{}")]);
    for _ in 0..2 {
        let error = shop(&script).read(&profile().key()).await.unwrap_err();
        assert!(!error.is_ambiguous(), "{error}");
        let text = error.to_string();
        assert!(
            text.starts_with("read item: ")
                && text.contains("; `dbs/db/colls/c/docs/profile:ann`, "),
            "{text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_document_of_another_type_with_the_same_id_is_an_error() {
    let other =
        Step::json(&json!({"id": "order:7", "type": "profile", "_etag": "\"v\"", "_ts": 1}));
    let script = Script::new([other]);
    let partition = PartitionKey::from("ann");
    let error = shop(&script)
        .read(order(7).key().in_partition(&partition))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_only_sets_is_retried_and_an_increment_is_not() {
    let script = Script::new([lost(), written(200), lost()]);
    let container = shop(&script);
    let (partition, key) = (PartitionKey::from("ann"), order(7).key());
    let sets = Patch::<Order>::new().set(Order::STATUS, "paid");
    container
        .run(sets.at(key.in_partition(&partition)))
        .await
        .unwrap();
    let counts = Patch::<Order>::new().incr(Order::VIEW_COUNT, 1);
    let error = container
        .run(counts.at(key.in_partition(&partition)))
        .await
        .unwrap_err();
    assert!(error.is_ambiguous());
    let request = &script.requests()[0];
    assert_eq!(request.method, "PATCH");
    assert_eq!(
        request.headers["content-type"],
        "application/json_patch+json"
    );
    assert_eq!(
        request.body,
        r#"{"operations":[{"op":"set","path":"/status","value":"paid"}]}"#
    );
}

#[tokio::test(start_paused = true)]
async fn an_invalid_document_fails_before_anything_is_sent() {
    let script = Script::default();
    let container = shop(&script);
    let empty = Patch::<Profile>::new();
    let error = container.run(empty.at(&profile().key())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Encode);
    let huge = Profile {
        name: "x".repeat(3 * 1024 * 1024),
        ..profile()
    };
    let error = container.run(huge.create()).await.unwrap_err();
    assert!(error.to_string().contains("bytes"), "{error}");
    assert!(script.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn reads_carry_the_session_token_of_earlier_writes() {
    let found = Step::json(
        &json!({"id": "x", "type": "profile", "customer": "a", "name": "n", "_etag": "\"v\"", "_ts": 1}),
    );
    let script = Script::new([
        written(201).header("x-ms-session-token", "0:-1#4"),
        written(200),
        found,
    ]);
    let container = shop(&script);
    container.run(profile().create()).await.unwrap();
    container.run(profile().upsert()).await.unwrap();
    // Another handle of the same client shares the session.
    container
        .view::<super::shop::Shop>()
        .read(&profile().key())
        .await
        .unwrap();
    let tokens = script.sent_header("x-ms-session-token");
    assert_eq!(tokens, [None, None, Some("0:-1#4".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_session_token_of_an_unknown_range_reloads_the_ranges() {
    let found = || {
        let body = json!({"id": "x", "type": "profile", "customer": "a", "name": "n", "_etag": "\"v\"", "_ts": 1});
        Step::json(&body)
    };
    let script = Script::new([
        one_range(),
        written(201).header("x-ms-session-token", "0:-1#4"),
        found(),
        written(201).header("x-ms-session-token", "2:-1#6"),
        found(),
        listing(&[("1", "", "01", &["0"]), ("2", "01", "FF", &["0"])]),
        found(),
    ]);
    let container = shop(&script);
    container.physical_partitions().await.unwrap();
    for _ in 0..2 {
        container.run(profile().create()).await.unwrap();
        container.read(&profile().key()).await.unwrap();
    }
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    container.physical_partitions().await.unwrap();
    container.read(&profile().key()).await.unwrap();
    let sent: Vec<String> = script
        .sent_header("x-ms-session-token")
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(sent, ["0:-1#4", "0:-1#4,2:-1#6", "2:-1#6"]);
}

#[tokio::test(start_paused = true)]
async fn a_deeply_nested_document_is_an_error_and_not_a_stack_overflow() {
    let nested = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    for field in ["status", "foreign"] {
        let document = format!(
            r#"{{"id": "order:7", "type": "order", "customer": "ann", "number": 7, "viewCount": 0,
                "_etag": "v", "_ts": 1, "{field}": {nested}}}"#
        );
        let script = Script::new([Step::status(200).body(document)]);
        let partition = PartitionKey::from("ann");
        let read = shop(&script)
            .read(order(7).key().in_partition(&partition))
            .await;
        let kind = read.unwrap_err().kind();
        assert!(
            matches!(kind, ErrorKind::Decode | ErrorKind::Protocol),
            "{kind:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_id_decides_what_a_refused_creation_conflicts_with() {
    let found = || {
        Step::json(&json!({
            "id": "order:7", "type": "order", "customer": "ann", "number": 7, "status": "new",
            "viewCount": 0, "_etag": "v", "_ts": 1,
        }))
    };
    let text = || {
        let message =
            json!({ "code": "Conflict", "message": "Unique index constraint violation." });
        Step::status(409).body(message.to_string())
    };
    for answer in [
        || Step::refusal(409, 3301),
        text as fn() -> Step,
        || Step::refusal(409, 0),
    ] {
        let missing = || Step::refusal(404, 0);
        let script = Script::new([answer(), missing(), answer(), found(), answer(), missing()]);
        let container = shop(&script);
        let refused = container.create_if_missing(&order(7)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        assert!(refused.is_unique_key_conflict(), "{refused}");
        assert!(!refused.is_conflict(), "it proves no earlier write");
        assert!(
            refused.to_string().contains("one of (/type, /number)"),
            "{refused}"
        );
        // The document violates its id and its unique key.
        let existed = container.create_if_missing(&order(7)).await.unwrap();
        assert!(existed.is_none());
        let refused = container.run(order(7).create()).await.unwrap_err();
        assert!(refused.is_unique_key_conflict(), "{refused}");
        assert_eq!(script.steps_left(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_conflict_whose_id_cannot_be_read_proves_nothing() {
    let refused = Step::refusal(409, 0);
    let unread = (0..900).map(|_| Step::refusal(503, 0));
    let script = Script::new([refused].into_iter().chain(unread));
    let undecided = shop(&script).create_if_missing(&order(7)).await;
    let error = undecided.unwrap_err();
    assert!(!error.is_conflict() && !error.is_unique_key_conflict());
    assert!(error.is_transient() && !error.is_ambiguous(), "{error}");
    assert!(
        error
            .to_string()
            .contains("the id or a unique key is taken"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_conditional_delete_succeeds_for_one_writer_only() {
    let script = Script::new([Step::refusal(503, 0), Step::refusal(404, 0)]);
    let key = profile().key();
    let missing = shop(&script).run(key.delete().if_match(&etag())).await;
    let missing = missing.unwrap_err();
    assert!(
        missing.is_not_found() && missing.is_ambiguous(),
        "{missing}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deletion_of_a_container_whose_answer_is_lost_succeeds() {
    let found = |rid: &str| Step::json(&json!({"_rid": rid, "_etag": "\"1\""}));
    let steps = [found("a"), lost(), Step::refusal(404, 0)];
    let script = Script::new(steps.into_iter().chain([Step::refusal(404, 0)]));
    let container = shop(&script);
    container.delete_container().await.unwrap();
    let missing = container.delete_container().await.unwrap_err();
    assert!(missing.is_not_found(), "{missing}");

    // Another program has created a container of this name before the deletion was repeated.
    let script = Script::new([found("a"), lost(), Step::refusal(412, 0), found("b")]);
    shop(&script).delete_container().await.unwrap();
    let conditions = script.sent_header("if-match");
    let version = Some("\"1\"".to_owned());
    assert_eq!(conditions, [None, version.clone(), version, None]);

    // Another program has changed the definition.
    let script = Script::new([found("a"), Step::refusal(412, 0), found("a")]);
    let changed = shop(&script).delete_container().await.unwrap_err();
    assert!(changed.is_precondition_failed(), "{changed}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_as_too_large_names_the_size_and_the_limit() {
    let script = Script::new([Step::refusal(413, 0)]);
    let error = shop(&script).run(order(1).create()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let (text, bytes) = (error.to_string(), script.requests()[0].body.len());
    assert!(
        text.contains(&format!("the request has {bytes} bytes")) && text.contains("2097152"),
        "{text}"
    );
}
