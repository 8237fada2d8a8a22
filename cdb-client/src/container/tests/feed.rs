//! The change feed: cursors, end of the feed, splits.

use cdb_model::{PartitionKey, Stored};
use serde_json::json;

use super::fixture::{Fixture, fixture, listing, one_range, page, two_ranges};
use crate::container::feed::{Change, FeedCursor, FeedStart, VersionRow};
use crate::error::ErrorKind;
use crate::transport::{Script, Step};

fn things(etag: &str, ids: &[&str]) -> Step {
    let documents = ids
        .iter()
        .map(|id| json!({"id": id, "type": "thing", "_etag": "\"e\"", "_ts": 5}))
        .collect();
    page(&documents).header("etag", etag)
}

fn nothing_new(etag: &str) -> Step {
    Step::status(304).header("etag", etag)
}

fn ids(changes: &[Stored<Fixture>]) -> Vec<&str> {
    changes.iter().map(|change| change.id.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn every_range_continues_at_its_own_cursor() {
    let script = Script::new([
        two_ranges(),
        things("\"5\"", &["a", "b"]),
        things("\"9\"", &["c"]),
        nothing_new("\"6\""),
        nothing_new("\"9\""),
        nothing_new("\"6\""),
        nothing_new("\"9\""),
    ]);
    let mut feed = fixture(&script).change_feed(FeedStart::Beginning);
    assert_eq!(ids(&feed.next_changes().await.unwrap()), ["a", "b", "c"]);
    assert!(feed.next_changes().await.unwrap().is_empty());

    // The cursor can be serialized, and a 304 moves it too.
    let stored = serde_json::to_string(feed.cursor()).unwrap();
    let cursor: FeedCursor = serde_json::from_str(&stored).unwrap();
    let mut resumed = feed.container().resume_change_feed(cursor);
    resumed.next_changes().await.unwrap();
    let sent = script.sent_header("if-none-match");
    let cursors: Vec<&str> = sent.iter().flatten().map(String::as_str).collect();
    assert_eq!(cursors, ["\"5\"", "\"9\"", "\"6\"", "\"9\""]);
    assert_eq!(
        script.sent_header("a-im")[1].as_deref(),
        Some("Incremental Feed")
    );
}

#[tokio::test(start_paused = true)]
async fn an_empty_page_with_a_new_cursor_is_not_the_end() {
    let script = Script::new([one_range(), things("\"5\"", &[]), things("\"6\"", &["a"])]);
    let mut feed = fixture(&script).change_feed(FeedStart::Beginning);
    assert_eq!(ids(&feed.next_changes().await.unwrap()), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_feed_from_now_starts_at_the_etag_of_the_first_response() {
    let script = Script::new([one_range(), things("\"5\"", &[]), things("\"6\"", &["a"])]);
    let mut feed = fixture(&script).change_feed(FeedStart::Now);
    assert!(feed.next_changes().await.unwrap().is_empty());
    assert_eq!(ids(&feed.next_changes().await.unwrap()), ["a"]);
    let sent = script.sent_header("if-none-match");
    assert_eq!(sent[1..], [Some("*".to_owned()), Some("\"5\"".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_page_with_the_same_cursor_is_the_end() {
    let script = Script::new([one_range(), things("\"1\"", &[]), things("\"1\"", &[])]);
    let mut feed = fixture(&script).change_feed(FeedStart::Beginning);
    assert!(feed.next_changes().await.unwrap().is_empty());
    assert_eq!(script.steps_left(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_start_time_is_sent_with_every_cursor() {
    let script = Script::new([one_range(), things("\"5\"", &["a"]), nothing_new("\"5\"")]);
    let since = FeedStart::Since(cdb_model::Timestamp::from_millis(1_500_000_000_000));
    let mut feed = fixture(&script).change_feed(since);
    feed.next_changes().await.unwrap();
    feed.next_changes().await.unwrap();
    let times = script.sent_header("if-modified-since");
    let time = Some("Fri, 14 Jul 2017 02:40:00 GMT".to_owned());
    assert_eq!(times[1..], [time.clone(), time]);
}

#[tokio::test(start_paused = true)]
async fn the_children_of_a_split_continue_at_the_cursor_of_the_parent() {
    let script = Script::new([
        one_range(),
        things("\"5\"", &["a"]),
        Step::refusal(410, 1002),
        listing(&[("1", "", "1F", &["0"]), ("2", "1F", "FF", &["0"])]),
        things("\"7\"", &["b"]),
        nothing_new("\"5\""),
    ]);
    let mut feed = fixture(&script).change_feed(FeedStart::Beginning);
    feed.next_changes().await.unwrap();
    assert_eq!(ids(&feed.next_changes().await.unwrap()), ["b"]);
    let cursors = script.sent_header("if-none-match");
    assert_eq!(cursors[4..], vec![Some("\"5\"".to_owned()); 2]);
}

#[tokio::test(start_paused = true)]
async fn unknown_documents_are_omitted_and_malformed_ones_do_not_advance_the_cursor() {
    let mixed = page(&json!([
        {"id": "x", "type": "foreign", "_ts": 1},
        {"id": "a", "type": "thing", "_ts": 1},
    ]));
    let broken = page(&json!([{"id": "a", "type": 7}]));
    let script = Script::new([
        one_range(),
        mixed.header("etag", "\"5\""),
        broken.header("etag", "\"6\""),
        nothing_new("\"5\""),
    ]);
    let mut feed = fixture(&script).change_feed(FeedStart::Beginning);
    assert_eq!(ids(&feed.next_changes().await.unwrap()), ["a"]);
    let error = feed.next_changes().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
    feed.next_changes().await.unwrap();
    assert_eq!(
        script.sent_header("if-none-match")[3].as_deref(),
        Some("\"5\"")
    );
}

#[tokio::test(start_paused = true)]
async fn a_page_of_unknown_documents_is_not_the_end() {
    let foreign = || page(&json!([{"id": "x", "type": "foreign", "_ts": 1}]));
    let answers = || {
        [
            foreign().header("etag", "\"5\""),
            things("\"6\"", &["a"]),
            nothing_new("\"6\""),
        ]
    };
    let script = Script::new([one_range()]);
    script.extend(answers());
    script.extend(answers());
    let fixture = fixture(&script);
    let mut feed = fixture.change_feed(FeedStart::Beginning);
    assert_eq!(ids(&feed.next_changes().await.unwrap()), ["a"]);
    assert!(feed.next_changes().await.unwrap().is_empty());

    // A reader of pages can store the position between the two.
    let mut feed = fixture.change_feed(FeedStart::Beginning);
    assert!(!feed.cursor().is_started());
    let mut pages = Vec::new();
    for _ in 0..3 {
        let page = feed.next_page().await.unwrap();
        assert!(feed.cursor().is_started());
        pages.push((page.rows.len(), page.is_end));
    }
    assert_eq!(pages, [(0, false), (1, false), (0, true)]);
}

#[tokio::test(start_paused = true)]
async fn a_position_is_not_started_before_the_first_answer() {
    let script = Script::new([one_range(), Step::refusal(400, 0), nothing_new("\"5\"")]);
    let mut feed = fixture(&script).change_feed(FeedStart::Now);
    feed.next_page().await.unwrap_err();
    assert!(!feed.cursor().is_started(), "{:?}", feed.cursor());
    feed.next_page().await.unwrap();
    assert!(feed.cursor().is_started());
}

#[tokio::test(start_paused = true)]
async fn next_rows_moves_the_cursor_past_an_unreadable_document() {
    let unreadable = json!([
        {"id": "a", "type": "number", "pk": "p", "_etag": "\"e\"", "_ts": 5},
        {"id": "b", "type": "thing", "pk": "p", "_etag": "\"e\"", "_ts": 5, "_lsn": 7},
    ]);
    let unreadable = || page(&unreadable).header("etag", "\"5\"");
    let script = Script::new([
        one_range(),
        unreadable(),
        unreadable(),
        nothing_new("\"5\""),
    ]);
    let mut feed = fixture(&script).change_feed(FeedStart::Beginning);
    let error = feed.next_changes().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
    let rows = feed.next_rows().await.unwrap();
    let lsns: Vec<u64> = rows.iter().map(|row| row.lsn).collect();
    assert_eq!(lsns, [0, 7]);
    let [Err(unreadable), Ok(read)] = [&rows[0].row, &rows[1].row] else {
        panic!("{rows:?}");
    };
    assert_eq!(unreadable.location.as_ref().unwrap().id.as_str(), "a");
    assert_eq!(read.id.as_str(), "b");
    assert!(feed.next_changes().await.unwrap().is_empty());
    let cursors = script.sent_header("if-none-match");
    assert_eq!(cursors[1..], [None, None, Some("\"5\"".to_owned())]);
}

/// Sources: azure-sdk-for-python `change_feed_state.py`, azure-cosmos-dotnet-v3
/// `RequestInvokerHandler.cs`.
#[tokio::test(start_paused = true)]
async fn a_merged_range_is_read_by_the_bounds_of_its_parents() {
    let script = Script::new([
        two_ranges(),
        nothing_new("\"5\""),
        nothing_new("\"6\""),
        Step::refusal(410, 1002),
        listing(&[("3", "", "FF", &["1", "2"])]),
        nothing_new("\"9\""),
        nothing_new("\"9\""),
    ]);
    let mut feed = fixture(&script).change_feed(FeedStart::Beginning);
    feed.next_changes().await.unwrap();
    feed.next_changes().await.unwrap();
    let last = |name| script.sent_header(name).split_off(5);
    let both = |texts: [&str; 2]| texts.map(|text| Some(text.to_owned()));
    assert_eq!(
        last("x-ms-documentdb-partitionkeyrangeid"),
        both(["3", "3"])
    );
    assert_eq!(last("x-ms-start-epk"), both(["", "1F"]));
    assert_eq!(last("x-ms-end-epk"), both(["1F", "FF"]));
    let kind = "EffectivePartitionKeyRange";
    assert_eq!(last("x-ms-read-key-type"), both([kind, kind]));
    assert_eq!(last("if-none-match"), both(["\"5\"", "\"6\""]));
}

#[tokio::test(start_paused = true)]
async fn changes_of_unknown_kinds_or_without_their_optional_members_are_returned() {
    let stored = |kind: &str| json!({"id": "a", "type": kind, "pk": "p", "_etag": "e", "_ts": 5});
    let rows = json!([
        {"current": stored("thing"), "previous": stored("foreign"),
         "metadata": {"operationType": "replace", "lsn": 7, "crts": 5}},
        {"metadata": {"operationType": "delete", "lsn": 8, "crts": 5, "id": "a", "partitionKey": null}},
        {"previous": stored("foreign"),
         "metadata": {"operationType": "delete", "lsn": 9, "crts": 5, "id": "a", "partitionKey": {"pk": "p"}}},
        {"metadata": {"operationType": "delete", "lsn": 10, "crts": 5, "id": "a", "partitionKey": ["p"]}},
        {"current": stored("thing"), "metadata": {"operationType": "undelete", "lsn": 11, "crts": null, "previousImageLSN": null}},
    ]);
    let script = Script::new([one_range(), page(&rows).header("etag", "\"9\"")]);
    let cursor = FeedCursor::new(FeedStart::Now);
    let mut feed = fixture(&script).resume_feed::<VersionRow<Fixture>>(cursor);
    let rows = feed.next_page().await.unwrap().rows;
    let [replaced, deleted, by_level, other] = &*rows else {
        panic!("{rows:?}");
    };
    let Change::Replaced { current, previous } = &replaced.change else {
        panic!("{replaced:?}");
    };
    assert!(current.is_ok() && previous.is_none());
    let Change::Deleted { partition_key, .. } = &deleted.change else {
        panic!("{deleted:?}");
    };
    assert_eq!((deleted.lsn, partition_key), (8, &None));
    let Change::Deleted { partition_key, .. } = &by_level.change else {
        panic!("{by_level:?}");
    };
    assert_eq!(partition_key, &Some(PartitionKey::from("p")));
    // azure_data_cosmos, `change_feed_item.rs`: an unknown operation must not stall the feed.
    assert!(matches!(
        &other.change,
        Change::Other {
            current: Some(Ok(_)),
            previous: None
        }
    ));
}

#[tokio::test(start_paused = true)]
async fn a_feed_fails_when_its_listing_stays_older_than_a_split() {
    let script = Script::new([one_range()]);
    script.extend((0..200).flat_map(|_| [Step::refusal(410, 1002), one_range()]));
    let begun = tokio::time::Instant::now();
    let mut feed = fixture(&script).change_feed(FeedStart::Beginning);
    let error = feed.next_changes().await.unwrap_err();
    assert!(error.is_partition_split(), "{error}");
    assert!(begun.elapsed() < std::time::Duration::from_secs(40));
}
