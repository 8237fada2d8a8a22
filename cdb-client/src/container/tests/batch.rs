//! Batches and bulks: which operation failed, what is retried, and what stays ambiguous.

use std::time::Duration;

use cdb_model::document::Read;
use cdb_model::limits::MAX_DOCUMENT_BYTES;
use cdb_model::operation::BulkBatch;
use cdb_model::{Batch, Document as _, ETag};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::fixture::{listing, one_range};
use super::shop::{Order, Profile, Shop, order, profile, shop};
use crate::error::ErrorKind;
use crate::measure_charge;
use crate::transport::{Delivery, Script, Step};

fn results(codes: &[u16]) -> Step {
    let results: Vec<Value> = codes
        .iter()
        .map(|code| json!({"statusCode": code, "requestCharge": 1.0, "eTag": "\"v\""}))
        .collect();
    let mut step = Step::json(&results);
    if let Step::Answer(answer) = &mut step {
        answer.status = if codes.iter().all(|&code| code < 300) {
            200
        } else {
            207
        };
    }
    step
}

fn batch() -> Batch<Shop> {
    let mut batch = Batch::new("ann");
    batch.add(order(1).create()).unwrap();
    batch
        .add(profile().replace().if_match(&ETag::new("\"v1\"")))
        .unwrap();
    batch.add(order(2).key().delete()).unwrap();
    batch
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_one_request_with_its_etags() {
    let script = Script::new([results(&[201, 200, 204]).header("x-ms-request-charge", "20.5")]);
    let (outcome, charge) = measure_charge(shop(&script).execute(&batch())).await;
    assert_eq!(outcome.unwrap().etag(0.into()).unwrap().as_str(), "\"v\"");
    assert!((charge - 20.5).abs() < f64::EPSILON);
    let request = &script.requests()[0];
    for name in ["x-ms-cosmos-is-batch-request", "x-ms-cosmos-batch-atomic"] {
        assert_eq!(request.headers[name], "True");
    }
    assert_eq!(
        request.headers["x-ms-documentdb-partitionkey"],
        r#"["ann"]"#
    );
    let body: Vec<Value> = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(body[0]["operationType"], "Create");
    assert_eq!(body[1]["ifMatch"], "\"v1\"");
    assert_eq!(body[2], json!({"operationType": "Delete", "id": "order:2"}));
}

#[tokio::test(start_paused = true)]
async fn the_failed_operation_determines_the_error() {
    for (codes, kind, index) in [
        ([409, 424, 424], ErrorKind::Conflict, 0),
        ([424, 412, 424], ErrorKind::PreconditionFailed, 1),
        ([424, 424, 404], ErrorKind::NotFound, 2),
        ([424, 413, 424], ErrorKind::TooLarge, 1),
    ] {
        // After 409, the client reads whether the id is taken.
        let script = Script::new([results(&codes), Step::status(200)]);
        let error = shop(&script).execute(&batch()).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.operation_index()),
            (kind, Some(index)),
            "{error}"
        );
        assert!(!error.is_ambiguous());
        let text = error.to_string();
        let operation = format!("execute batch: operation {index}, `");
        assert!(text.starts_with(&operation), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_with_a_throttled_or_raced_operation_is_retried() {
    let script = Script::new([
        results(&[424, 429, 424]),
        results(&[449, 424, 424]),
        results(&[201, 200, 204]),
    ]);
    shop(&script).execute(&batch()).await.unwrap();
    assert_eq!(script.requests().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_batch_without_an_answer_is_not_retried() {
    for lost in [
        Step::NoAnswer(Delivery::Unknown),
        Step::refusal(408, 0),
        Step::Hang,
    ] {
        let script = Script::new([lost]);
        let error = shop(&script).execute(&batch()).await.unwrap_err();
        assert!(error.is_ambiguous(), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_accepted_batch_with_an_unreadable_answer_is_ambiguous() {
    for answer in [Step::status(200).body("oops"), results(&[201])] {
        let script = Script::new([answer]);
        let error = shop(&script).execute(&batch()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol);
        assert!(error.is_ambiguous(), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeatable_batch_is_retried_and_returns_its_reads() {
    let read = json!([
        {"statusCode": 200, "eTag": "\"v\""},
        {"statusCode": 200, "resourceBody": {"id": "profile:ann", "type": "profile", "customer": "ann", "name": "Ann", "_etag": "\"v\"", "_ts": 1}},
    ]);
    let script = Script::new([Step::NoAnswer(Delivery::Unknown), Step::json(&read)]);
    let mut batch = Batch::<Shop>::new("ann");
    batch.add(order(1).upsert()).unwrap();
    let index = batch.add(Read::new(&profile().key())).unwrap();
    let outcome = shop(&script).execute(&batch).await.unwrap();
    let stored = outcome.document::<Profile>(index).unwrap().unwrap();
    assert_eq!(stored.document, profile());
    assert!(outcome.document::<Order>(index).is_err());
    assert_eq!(
        script.sent_header("prefer"),
        [None, None],
        "a minimal answer may hold no reads"
    );
}

#[tokio::test(start_paused = true)]
async fn an_empty_batch_is_refused_before_it_is_sent() {
    let script = Script::default();
    let error = shop(&script).execute(&Batch::new("ann")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
}

fn order_of(customer: &str, number: u64) -> Order {
    Order {
        customer: customer.to_owned(),
        ..order(number)
    }
}

/// The hash of `redmond` is 22E3…, that of `inst-1` is 23A8….
fn bulk() -> BulkBatch<Shop> {
    let mut bulk = BulkBatch::new();
    bulk.add(order_of("redmond", 1).upsert()).unwrap();
    bulk.add(order_of("inst-1", 2).upsert()).unwrap();
    bulk.add(order_of("redmond", 3).create()).unwrap();
    bulk
}

fn codes(results: Vec<crate::Result<crate::write::OperationResult>>) -> Vec<u16> {
    results
        .into_iter()
        .map(|result| match result {
            Ok(result) => result.status().code,
            Err(error) => error.status().map_or(0, |status| status.code),
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_bulk_is_grouped_by_range_and_each_operation_has_its_own_result() {
    let script = Script::new([
        listing(&[("1", "", "23", &[]), ("2", "23", "FF", &[])]),
        results(&[200, 409]),
        results(&[429]),
        results(&[201]),
        // The id of the refused creation is taken.
        Step::status(200),
    ]);
    assert_eq!(
        codes(shop(&script).execute_bulk(&bulk()).await),
        [200, 201, 409]
    );
    let requests = &script.requests()[1..4];
    let sent: Vec<Vec<Value>> = requests
        .iter()
        .map(|request| serde_json::from_slice(&request.body).unwrap())
        .collect();
    assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1, 1]);
    assert_eq!(sent[0][1]["partitionKey"], r#"["redmond"]"#);
    assert_eq!(sent[0][1]["operationType"], "Create");
    assert_eq!(sent[2][0]["resourceBody"]["id"], "order:2");
    assert_eq!(requests[0].headers["x-ms-cosmos-batch-atomic"], "False");
    assert_eq!(
        requests[0].headers["x-ms-documentdb-partitionkeyrangeid"],
        "1"
    );
    assert!(
        !requests[0]
            .headers
            .contains_key("x-ms-documentdb-partitionkey")
    );
}

#[tokio::test(start_paused = true)]
async fn a_bulk_follows_a_split() {
    let of_each = |sub_status| {
        let result = json!({"statusCode": 410, "subStatusCode": sub_status});
        Step::json(&[&result; 3])
    };
    for refusal in [
        Step::refusal(410, 1002),
        of_each(1002),
        of_each(1007),
        of_each(1008),
    ] {
        let script = Script::new([
            one_range(),
            refusal,
            listing(&[("1", "", "23", &["0"]), ("2", "23", "FF", &["0"])]),
            results(&[201, 201]),
            results(&[201]),
        ]);
        assert_eq!(
            codes(shop(&script).execute_bulk(&bulk()).await),
            [201, 201, 201]
        );
    }
}

/// Source: azure-cosmos-dotnet-v3, `BulkExecutionRetryPolicy.cs`.
#[tokio::test(start_paused = true)]
async fn an_operation_whose_result_did_not_fit_into_the_answer_is_sent_again() {
    let too_long = json!({"statusCode": 413, "subStatusCode": 3402});
    let first = json!([{"statusCode": 201}, too_long, {"statusCode": 200}]);
    let script = Script::new([one_range(), Step::json(&first), results(&[409])]);
    let outcome = shop(&script).execute_bulk(&bulk()).await;
    assert!(outcome[1].as_ref().unwrap_err().is_ambiguous());
    assert_eq!(codes(outcome), [201, 409, 200]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_request_of_a_bulk_is_retried_only_if_repeatable() {
    let script = Script::new([
        listing(&[("1", "", "23", &[]), ("2", "23", "FF", &[])]),
        Step::NoAnswer(Delivery::Unknown),
        Step::NoAnswer(Delivery::Unknown),
        results(&[200]),
    ]);
    let outcome = shop(&script).execute_bulk(&bulk()).await;
    let open: Vec<bool> = outcome
        .iter()
        .map(|result| matches!(result, Err(error) if error.is_ambiguous()))
        .collect();
    // The operations of range 1 include a create.
    assert_eq!(open, [true, false, true]);
}

#[tokio::test(start_paused = true)]
async fn an_operation_stays_ambiguous_after_an_ambiguous_attempt() {
    let script = Script::new([
        one_range(),
        results(&[408, 408, 503]),
        results(&[403, 200, 409]),
        Step::status(200),
    ]);
    let outcome = shop(&script).execute_bulk(&bulk()).await;
    let open: Vec<bool> = outcome
        .iter()
        .map(|result| matches!(result, Err(error) if error.is_ambiguous()))
        .collect();
    assert_eq!(open, [true, false, true]);
    assert_eq!(codes(outcome), [403, 200, 409]);
}

#[tokio::test(start_paused = true)]
async fn an_accepted_bulk_with_an_unreadable_answer_is_ambiguous() {
    for answer in [Step::status(200).body("oops"), results(&[201])] {
        let script = Script::new([one_range(), answer]);
        for result in shop(&script).execute_bulk(&bulk()).await {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Protocol);
            assert!(error.is_ambiguous(), "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_bulk_leaves_out_a_partition_that_does_not_answer() {
    let script = Script::new([
        listing(&[("1", "", "23", &[]), ("2", "23", "FF", &[])]),
        results(&[200, 201]),
        Step::Hang,
        // A point read that asks whether the partition is silent or slow.
        Step::Hang,
        results(&[200, 201]),
    ]);
    let (shop, begun) = (shop(&script), Instant::now());
    for is_sent in [true, false] {
        let outcome = shop.execute_bulk_skipping_unavailable(&bulk()).await;
        let left_out = outcome[1].as_ref().unwrap_err();
        assert_eq!(left_out.kind(), ErrorKind::Unavailable);
        assert_eq!(left_out.is_ambiguous(), is_sent);
        assert_eq!(codes(outcome), [200, 0, 201]);
        assert_eq!(begun.elapsed(), Duration::from_secs(1), "one wait");
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_fails_its_whole_bulk_request_fails_alone() {
    let refused = || Step::refusal(400, 0);
    // Three operations, the first two, and each of them.
    let script = Script::new([one_range(), refused(), refused(), refused()]);
    script.extend([results(&[201]), results(&[201])]);
    let results = shop(&script).execute_bulk(&bulk()).await;
    assert_eq!(codes(results), [400, 201, 201]);
    assert_eq!(script.steps_left(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_operation_whose_partition_key_is_too_long_is_not_sent() {
    let mut bulk = BulkBatch::new();
    bulk.add(order_of(&"x".repeat(2049), 1).create()).unwrap();
    bulk.add(order_of(&"x".repeat(2048), 2).create()).unwrap();
    let script = Script::new([one_range(), results(&[201])]);
    let results = shop(&script).execute_bulk(&bulk).await;
    let error = results[0].as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadRequest);
    assert!(error.to_string().contains("2049 bytes"), "{error}");
    assert!(results[1].is_ok());
}

/// The partition key is a text inside a text there, so its quotation marks have three backslashes each.
#[tokio::test(start_paused = true)]
async fn an_operation_that_is_larger_than_a_bulk_request_is_not_sent() {
    let mut large = order_of(&"\"".repeat(2048), 1);
    large.status = "x".repeat(MAX_DOCUMENT_BYTES - 4200);
    let mut bulk = BulkBatch::new();
    bulk.add(large.create()).unwrap();
    bulk.add(order_of("ann", 2).create()).unwrap();
    let script = Script::new([one_range(), results(&[201])]);
    let results = shop(&script).execute_bulk(&bulk).await;
    let error = results[0].as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let text = error.to_string();
    assert!(
        text.contains("bytes in a bulk, the service allows 2097152 per request"),
        "{text}"
    );
    assert!(results[1].is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_waits_of_a_background_bulk_are_not_part_of_its_deadline() {
    let script = Script::new([one_range()]);
    // The pauses after 12 of them are longer than the 30 s for the attempts.
    script.extend((0..12).map(|_| results(&[429; 3])));
    script.extend([results(&[201; 3])]);
    let background = shop(&script).in_background();
    assert_eq!(codes(background.execute_bulk(&bulk()).await), [201; 3]);
}
