//! Queries: merged order, pages, counts, splits, session tokens.

use std::time::Duration;

use cdb_model::PartitionKey;
use cdb_model::document::DecodeError;
use cdb_model::query::aggregate::AggregateKind;
use cdb_model::query::statement::{Fetch, RowForm, Scope, Statement, ValueError};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::fixture::{
    Ask, Fixture, continued, fixture, listing, n_of, numbers, one_range, ordered, page, two_ranges,
};
use crate::error::{ErrorKind, RequestKind};
use crate::transport::{Script, Step};

fn queried_ranges(script: &Script) -> Vec<String> {
    script
        .sent_header("x-ms-documentdb-partitionkeyrangeid")
        .into_iter()
        .flatten()
        .collect()
}

fn count() -> Ask {
    let mut ask = ordered(None);
    ask.0.order.clear();
    ask.0.form = RowForm::Aggregates {
        kinds: vec![AggregateKind::Count],
        grouped: false,
    };
    ask
}

/// A page with one partial count.
fn partial(count: impl Into<Value>) -> Step {
    page(&json!([{"items": [{"item": count.into()}]}]))
}

/// Returns the numbers of documents that have one.
struct Numbers(Ask);

impl Fetch<Fixture> for Numbers {
    type Row = i64;

    fn statement(&self) -> Result<Statement, ValueError> {
        Fetch::<Fixture>::statement(&self.0)
    }

    fn read_row(&self, json: &str) -> Result<i64, DecodeError> {
        let row = self.0.read_row(json)?;
        row["n"].as_i64().ok_or_else(|| DecodeError::WrongType {
            expected: "number",
            found: String::new(),
            id: String::new(),
        })
    }
}

fn in_partition(key: &str) -> Ask {
    let mut ask = ordered(None);
    ask.0.scope = Scope::Partition(PartitionKey::from(key));
    ask
}

#[tokio::test(start_paused = true)]
async fn rows_of_all_ranges_are_merged_in_order() {
    let script = Script::new([two_ranges(), numbers(&[1, 4, 5]), numbers(&[2, 3, 6])]);
    let rows = fixture(&script).query(ordered(None)).all().await.unwrap();
    assert_eq!(n_of(&rows), [1, 2, 3, 4, 5, 6]);
    assert_eq!(queried_ranges(&script), ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn the_next_page_of_a_range_is_read_before_rows_that_may_follow_it() {
    let script = Script::new([
        two_ranges(),
        continued(numbers(&[1])),
        numbers(&[2, 9]),
        continued(numbers(&[])),
        numbers(&[3]),
    ]);
    let rows = fixture(&script).query(ordered(None)).all().await.unwrap();
    assert_eq!(n_of(&rows), [1, 2, 3, 9]);
    assert_eq!(queried_ranges(&script), ["1", "2", "1", "1"]);
    let continuations = script.sent_header("x-ms-continuation");
    assert_eq!(
        continuations[3..],
        [Some("more".to_owned()), Some("more".to_owned())]
    );
}

#[tokio::test(start_paused = true)]
async fn top_limits_the_rows_of_all_ranges_together() {
    let script = Script::new([two_ranges(), numbers(&[1, 4]), numbers(&[2, 3])]);
    let rows = fixture(&script)
        .query(ordered(Some(2)))
        .all()
        .await
        .unwrap();
    assert_eq!(n_of(&rows), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn counts_are_summed_over_ranges_and_pages() {
    let script = Script::new([
        two_ranges(),
        continued(partial(3)),
        partial(4.0),
        partial(5),
    ]);
    let container = fixture(&script);
    assert_eq!(
        container.query(count()).first().await.unwrap(),
        Some(json!(12))
    );
}

#[tokio::test(start_paused = true)]
async fn a_count_beyond_u64_does_not_panic() {
    let most = partial(u64::MAX);
    let script = Script::new([two_ranges(), most.clone(), most]);
    let counted = fixture(&script).query(count()).first().await.unwrap();
    assert_eq!(counted, Some(json!(2.0 * 2_f64.powi(64))));
}

#[tokio::test(start_paused = true)]
async fn the_page_size_of_an_aggregate_is_left_to_the_service() {
    let script = Script::new([two_ranges(), partial(1), partial(2), partial(3), partial(4)]);
    let container = fixture(&script);
    let first = container.query(count()).first().await.unwrap();
    assert_eq!(first, Some(json!(3)));
    let page = container.query(count()).page(1, None).await.unwrap();
    assert_eq!((page.rows, page.next), (vec![json!(7)], None));
    let sizes = script.sent_header("x-ms-max-item-count");
    assert_eq!(sizes, vec![Some("-1".to_owned()); 5]);
}

#[tokio::test(start_paused = true)]
async fn an_aggregate_does_not_continue_another_query() {
    let script = Script::new([two_ranges(), numbers(&[1, 3]), numbers(&[2, 4])]);
    let container = fixture(&script);
    let page = container.query(ordered(None)).page(1, None).await.unwrap();
    let refused = container.query(count()).page(1, page.next.as_ref()).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("continuation belongs to another query"),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_aggregate_of_another_form_is_an_error_without_its_values() {
    let script = Script::new([two_ranges(), partial("secret"), partial(1)]);
    let error = fixture(&script).query(count()).all().await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_count_without_partial_counts_is_zero() {
    let script = Script::new([two_ranges(), partial(0), page(&json!([]))]);
    let rows = fixture(&script).query(count()).all().await.unwrap();
    assert_eq!(rows, [json!(0)]);
}

#[tokio::test(start_paused = true)]
async fn ranges_are_listed_once_and_queried_with_their_own_session_token() {
    let script = Script::new([
        two_ranges(),
        numbers(&[1]).header("x-ms-session-token", "1:-1#7"),
        numbers(&[2]).header("x-ms-session-token", "2:-1#9"),
        numbers(&[]),
        numbers(&[]),
    ]);
    let container = fixture(&script);
    container.query(ordered(None)).all().await.unwrap();
    container.query(ordered(None)).all().await.unwrap();
    assert_eq!(
        container
            .usage()
            .of(RequestKind::ReadPhysicalPartitions)
            .requests,
        1
    );
    let tokens = script.sent_header("x-ms-session-token");
    let sent = ["1:-1#7", "2:-1#9"].map(|token| Some(token.to_owned()));
    assert_eq!(tokens[3..], sent);
}

#[tokio::test(start_paused = true)]
async fn a_query_starts_over_on_the_children_of_a_split() {
    // A range that is completing its split is asked a few times.
    for (sub_status, asked) in [(1002, 1), (1007, 4), (1008, 4)] {
        let script = Script::new([one_range(), continued(numbers(&[1]))]);
        script.extend((0..asked).map(|_| Step::refusal(410, sub_status)));
        script.extend([
            listing(&[("1", "", "1F", &["0"]), ("2", "1F", "FF", &["0"])]),
            numbers(&[1, 4]),
            numbers(&[2]),
        ]);
        let rows = fixture(&script).query(ordered(None)).all().await.unwrap();
        assert_eq!(n_of(&rows), [1, 2, 4]);
        let queried = queried_ranges(&script);
        assert_eq!(queried[1 + asked..], ["1", "2"], "410/{sub_status}");
    }
}

#[tokio::test(start_paused = true)]
async fn returned_pages_are_not_repeated_after_a_split() {
    let script = Script::new([
        one_range(),
        continued(numbers(&[1])),
        Step::refusal(410, 1002),
        listing(&[("1", "", "1F", &["0"]), ("2", "1F", "FF", &["0"])]),
    ]);
    let container = fixture(&script);
    let mut pages = container.query(ordered(None)).pages();
    assert_eq!(n_of(&pages.next_page().await.unwrap().unwrap()), [1]);
    let error = pages.next_page().await.unwrap_err();
    assert!(
        error.is_partition_split() && error.is_transient(),
        "{error}"
    );
    assert_eq!(container.physical_partitions().await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_next_call_requests_a_failed_page_again() {
    let script = Script::new([
        continued(numbers(&[1])),
        Step::refusal(400, 0),
        numbers(&[2]),
    ]);
    let container = fixture(&script);
    let mut pages = container.query(in_partition("a")).pages();
    assert_eq!(n_of(&pages.next_page().await.unwrap().unwrap()), [1]);
    pages.next_page().await.unwrap_err();
    assert_eq!(n_of(&pages.next_page().await.unwrap().unwrap()), [2]);
    assert!(pages.next_page().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn each_range_can_be_queried_separately() {
    let script = Script::new([two_ranges(), numbers(&[5])]);
    let container = fixture(&script);
    let second = container.physical_partitions().await.unwrap()[1].clone();
    let of_second = container
        .query(ordered(None))
        .in_physical_partition(&second);
    assert_eq!(n_of(&of_second.all().await.unwrap()), [5]);
    assert_eq!(queried_ranges(&script), ["2"]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_partition_removes_its_own_rows_only() {
    let script = Script::new([
        two_ranges(),
        numbers(&[1]),
        numbers(&[2]),
        numbers(&[1]),
        Step::Hang,
        numbers(&[1]),
        numbers(&[1]),
        numbers(&[2]),
    ]);
    let container = fixture(&script);
    let run = || container.query(ordered(None));
    let begun = Instant::now();
    let all = run().skip_unavailable().all().await.unwrap();
    assert_eq!(n_of(&all), [1, 2]);
    let found = run().all_available().await.unwrap();
    assert!(n_of(&found.rows) == [1] && !found.is_complete);
    assert_eq!(begun.elapsed(), Duration::from_secs(1));
    // In backoff, it is not queried.
    let found = run().all_available().await.unwrap();
    assert!(n_of(&found.rows) == [1] && !found.is_complete);
    assert_eq!(begun.elapsed(), Duration::from_secs(1));
    tokio::time::advance(Duration::from_secs(1)).await;
    let found = run().all_available().await.unwrap();
    assert!(n_of(&found.rows) == [1, 2] && found.is_complete);
    assert!(container.health().all_answer());
}

#[tokio::test(start_paused = true)]
async fn a_query_that_no_partition_answers_fails() {
    let script = Script::new([two_ranges(), Step::Hang, Step::Hang]);
    let container = fixture(&script);
    let found = container.query(ordered(None)).all_available().await;
    assert_eq!(found.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn slow_work_goes_on_while_its_partition_answers_reads() {
    let missing = || Step::refusal(404, 0);
    let listed = [two_ranges(), missing(), missing(), missing(), missing()];
    let script = Script::new(listed.into_iter().chain([Step::Hang]));
    let container = fixture(&script);
    container.physical_partitions().await.unwrap();
    let key = PartitionKey::from("a");
    let slow = tokio::time::sleep(Duration::from_millis(2200));
    assert_eq!(container.while_answering(&key, slow).await, Ok(()));
    let begun = Instant::now();
    let silent = std::future::pending::<()>();
    let stopped = container.while_answering(&key, silent).await;
    assert_eq!(stopped, Err(Duration::from_secs(1)));
    assert_eq!(begun.elapsed(), Duration::from_millis(1500));
    let refused = container.while_answering(&key, async {}).await;
    assert_eq!(refused, Err(Duration::from_secs(1)));
}

#[tokio::test(start_paused = true)]
async fn a_query_of_one_partition_names_it_and_needs_no_ranges() {
    let script = Script::new([numbers(&[2, 1])]);
    let rows = fixture(&script)
        .query(in_partition("größe"))
        .all()
        .await
        .unwrap();
    assert_eq!(n_of(&rows), [2, 1], "the service's order is kept");
    let request = &script.requests()[0];
    assert_eq!(
        request.url,
        "https://account.documents.azure.com/dbs/db/colls/c/docs"
    );
    assert_eq!(
        request.headers["x-ms-documentdb-partitionkey"],
        r#"["gr\u00f6\u00dfe"]"#
    );
    assert_eq!(request.headers["content-type"], "application/query+json");
    assert_eq!(request.headers["x-ms-documentdb-isquery"], "True");
    assert!(
        !request
            .headers
            .contains_key("x-ms-documentdb-partitionkeyrangeid")
    );
    assert_eq!(
        request.body,
        r#"{"query":"SELECT * FROM c ORDER BY c.n","parameters":[]}"#
    );
}

#[tokio::test(start_paused = true)]
async fn first_requests_a_page_of_one_row() {
    let script = Script::new([continued(numbers(&[])), continued(numbers(&[7]))]);
    let row = fixture(&script)
        .query(in_partition("a"))
        .first()
        .await
        .unwrap();
    assert_eq!(n_of(&[row.unwrap()]), [7]);
    let sizes = script.sent_header("x-ms-max-item-count");
    assert_eq!(sizes, vec![Some("1".to_owned()); 2]);
}

#[tokio::test(start_paused = true)]
async fn latest_committed_replaces_the_session_of_reads_and_queries() {
    let token = || numbers(&[]).header("x-ms-session-token", "0:-1#7");
    let script = Script::new([token(), token(), token(), token()]);
    let session = fixture(&script);
    let latest = session.latest_committed();
    for container in [&session, &session, &latest, &session] {
        container.query(in_partition("a")).all().await.unwrap();
    }
    let (latest, token) = ("LatestCommitted".to_owned(), Some("0:-1#7".to_owned()));
    let asked = script.sent_header("x-ms-cosmos-read-consistency-strategy");
    assert_eq!(asked, [None, None, Some(latest), None]);
    let tokens = script.sent_header("x-ms-session-token");
    assert_eq!(tokens, [None, token.clone(), None, token]);
}

#[tokio::test(start_paused = true)]
async fn ranges_are_listed_again_when_a_listing_overlaps_with_a_split() {
    let script = Script::new([
        listing(&[("1", "", "1F", &["0"])]),
        two_ranges(),
        numbers(&[1]),
        numbers(&[2]),
    ]);
    let rows = fixture(&script).query(ordered(None)).all().await.unwrap();
    assert_eq!(n_of(&rows), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn row_by_row_returns_the_other_rows_beside_an_unreadable_one() {
    let spoiled = json!([{"n": 1}, {"n": "2", "pk": "a", "id": "i", "_etag": "\"7\"", "_ts": 1}]);
    let steps = || [two_ranges(), page(&spoiled), numbers(&[0, 3])];

    let script = Script::new(steps());
    let container = fixture(&script);
    let error = container.query(Numbers(ordered(None))).all().await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Decode);

    let script = Script::new(steps());
    let container = fixture(&script);
    let query = container.query(Numbers(ordered(None))).row_by_row();
    let (rows, spoiled): (Vec<_>, Vec<_>) = query
        .all()
        .await
        .unwrap()
        .into_iter()
        .partition(Result::is_ok);
    let rows: Vec<i64> = rows.into_iter().map(Result::unwrap).collect();
    assert_eq!(rows, [0, 1, 3]);
    let [Err(spoiled)] = &spoiled[..] else {
        panic!("{spoiled:?}");
    };
    let location = spoiled.location.as_ref().unwrap();
    assert_eq!(location.id.as_str(), "i");
    assert_eq!(location.etag.as_str(), "\"7\"");
    assert_eq!(location.partition_key, PartitionKey::from("a"));
    assert_eq!(
        spoiled.to_string(),
        "item `i` in partition [\"a\"] cannot be read: expected a `number`, but item `` is a ``"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_repeats_no_page() {
    let script = Script::new([
        one_range(),
        continued(numbers(&[1])),
        Step::Hang,
        numbers(&[2]),
    ]);
    let container = fixture(&script);
    let mut pages = container.query(ordered(None)).pages();
    assert_eq!(n_of(&pages.next_page().await.unwrap().unwrap()), [1]);
    let cancelled = tokio::time::timeout(Duration::from_secs(1), pages.next_page());
    cancelled.await.unwrap_err();
    assert_eq!(n_of(&pages.next_page().await.unwrap().unwrap()), [2]);
}

#[tokio::test(start_paused = true)]
async fn a_page_without_an_order_ends_at_a_page_of_the_service() {
    let script = Script::new([
        two_ranges(),
        numbers(&[1, 2]),
        continued(numbers(&[3])),
        numbers(&[4]),
    ]);
    let container = fixture(&script);
    let mut unordered = ordered(None);
    unordered.0.order.clear();
    let first = container.query(unordered.clone()).page(3, None).await;
    let first = first.unwrap();
    assert_eq!(n_of(&first.rows), [1, 2, 3]);
    let second = container.query(unordered).page(3, first.next.as_ref());
    assert_eq!(n_of(&second.await.unwrap().rows), [4]);
    let sizes = script.sent_header("x-ms-max-item-count");
    let sizes: Vec<String> = sizes.into_iter().flatten().collect();
    // The first request lists the ranges.
    assert_eq!(sizes, ["-1", "3", "1", "3"]);
    let last = script.sent_header("x-ms-continuation").pop().flatten();
    assert_eq!(last.as_deref(), Some("more"));
}

/// Sources: azure-cosmos-dotnet-v3 #2146 and #2165, azure-sdk-for-python#47256.
#[tokio::test(start_paused = true)]
async fn a_read_carries_the_token_of_its_range_when_all_tokens_are_too_many() {
    let token = |range: u32| format!("{range}:-1#1234567#1=1234567");
    let tokens: Vec<String> = (0..300).map(token).collect();
    let few = numbers(&[]).header("x-ms-session-token", "1:-1#7,2:-1#9");
    let many = numbers(&[]).header("x-ms-session-token", &tokens.join(","));
    let boundaries: Vec<String> = (0..=300).map(|at| format!("{:04X}", at * 0x30)).collect();
    let ids: Vec<String> = (0..300).map(|at| at.to_string()).collect();
    let ranges: Vec<_> = (0..300)
        .map(|at| {
            let min = if at == 0 { "" } else { &*boundaries[at] };
            let max = if at == 299 {
                "FF"
            } else {
                &*boundaries[at + 1]
            };
            (&*ids[at], min, max, &[][..])
        })
        .collect();
    let script = Script::new([few, many, listing(&ranges), numbers(&[]), numbers(&[])]);
    let container = fixture(&script);
    for _ in 0..4 {
        container.query(in_partition("p")).all().await.unwrap();
    }
    let sent: Vec<String> = script
        .sent_header("x-ms-session-token")
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(sent[0], "1:-1#7,2:-1#9");
    assert_eq!(sent[1..].len(), 2);
    for sent in &sent[1..] {
        assert!(tokens.contains(sent), "{sent}");
    }
}
