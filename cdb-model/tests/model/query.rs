//! `explain`, differences, criteria and invalid values.

use std::collections::BTreeMap;

use cdb_model::operation::PatchError;
use cdb_model::policy::{IndexingPolicy, PolicyDifference};
use cdb_model::query::statement::Fetch;
use cdb_model::query::{
    CriteriaError, Criterion, Explain, Explanation, Filter, Operator, Order, SortCriterion,
};
use cdb_model::value::TextInteger;
use cdb_model::{Container, Document, DocumentKey as _, Patch, Query, Scalar, Timestamp};
use expect_test::{Expect, expect};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "ticket", id = "{team}:{number}")]
#[document(composite(BY_AGE = r#type, state, opened_at desc))]
struct Ticket {
    #[document(partition_key)]
    team: String,
    number: u32,
    #[document(index)]
    state: String,
    #[document(index)]
    opened_at: u64,
    #[document(index)]
    labels: Vec<String>,
    #[document(unindexed)]
    text: String,
    #[document(index)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    closed_at: Option<u64>,
    #[serde(default)]
    note: Option<String>,
}

#[derive(Container, Clone, Debug)]
enum Desk {
    Ticket(Ticket),
}

/// `Ticket` is in several containers, so the compiler has to be told which one is meant.
fn in_desk(query: &impl Explain<Desk>, policy: &IndexingPolicy) -> Explanation {
    query.explain(policy)
}

fn explained(query: &Query<Ticket>, expected: &Expect) {
    expected.assert_eq(&in_desk(query, &IndexingPolicy::of::<Desk>()).to_string());
}

#[test]
fn a_value_that_serde_skips_is_none_as_null_is() {
    let absent = Query::<Ticket>::across_partitions().filter(Ticket::CLOSED_AT.is_none());
    explained(
        &absent,
        &expect![[r#"
            served by an index: (c["type"] = "ticket" AND (IS_NULL(c["closedAt"]) OR NOT (IS_DEFINED(c["closedAt"]))))
              range index /type
              checked per document (IS_NULL(c["closedAt"]) OR NOT (IS_DEFINED(c["closedAt"])))
        "#]],
    );
    let present = Query::<Ticket>::across_partitions().filter(Ticket::CLOSED_AT.is_some());
    explained(
        &present,
        &expect![[r#"
        served by an index: (c["type"] = "ticket" AND IS_DEFINED(c["closedAt"]) AND NOT (IS_NULL(c["closedAt"])))
          range index /type
          range index /closedAt
          checked per document NOT (IS_NULL(c["closedAt"]))
    "#]],
    );
    let patch = Patch::<Ticket>::new().set(Ticket::TEXT, "late");
    let conditional = patch.clone().when_none(Ticket::NOTE);
    let body = conditional.body(Timestamp::default()).expect("a patch");
    expect![[r#"from c where (IS_NULL(c["note"]) OR NOT (IS_DEFINED(c["note"])))"#]]
        .assert_eq(&body.condition.expect("a condition"));
    let conditional = patch.when_some(Ticket::NOTE);
    let body = conditional.body(Timestamp::default()).expect("a patch");
    expect![[r#"from c where (IS_DEFINED(c["note"]) AND NOT (IS_NULL(c["note"])))"#]]
        .assert_eq(&body.condition.expect("a condition"));
}

#[test]
fn a_key_takes_the_integer_of_its_field() {
    let id = |key: TicketKey| key.to_id().expect("an id").to_string();
    assert_eq!(id(TicketKey::new("red", 7)), "red:7");
    assert_eq!(
        id(TicketKey::new("red".to_owned(), u32::from(7_u8))),
        "red:7"
    );
}

#[test]
fn a_declared_composite_serves_a_sort_and_its_reverse() {
    let query = Query::<Ticket>::across_partitions()
        .filter(Ticket::STATE.eq("open"))
        .order_by(Ticket::BY_AGE.reversed());
    explained(
        &query,
        &expect![[r#"
            served by an index: (c["type"] = "ticket" AND c["state"] = "open")
              range index /type
              range index /state
              composite index /type, /state, /openedAt
        "#]],
    );
}

#[test]
fn a_composite_serves_a_filter_only_when_all_of_its_paths_are_used() {
    let part = Query::<Ticket>::across_partitions().filter(Ticket::OPENED_AT.lt(5_u64));
    explained(
        &part,
        &expect![[r#"
            served by an index: (c["type"] = "ticket" AND c["openedAt"] < 5)
              range index /type
              range index /openedAt
        "#]],
    );
    let whole = part.filter(Ticket::STATE.eq("open"));
    explained(
        &whole,
        &expect![[r#"
            served by an index: (c["type"] = "ticket" AND c["openedAt"] < 5 AND c["state"] = "open")
              range index /type
              range index /openedAt
              range index /state
              composite index /type, /state, /openedAt
        "#]],
    );
}

#[test]
fn a_condition_without_an_index_is_checked_per_document() {
    let query = Query::<Ticket>::in_partition("red")
        .filter(!Ticket::STATE.eq("open") & Ticket::LABELS.contains("late"));
    explained(
        &query,
        &expect![[r#"
            served by an index: (c["type"] = "ticket" AND NOT (c["state"] = "open") AND ARRAY_CONTAINS(c["labels"], "late"))
              within one partition
              range index /type
              range index /labels
              checked per document NOT (c["state"] = "open")
        "#]],
    );
}

#[test]
fn searches_in_text_scan_the_index_of_their_path() {
    let state = Ticket::STATE;
    let query = Query::<Ticket>::across_partitions().filter(
        (state.ends_with("en") | state.eq_ignore_case("DONE"))
            & Ticket::LABELS.contains_any(["a", "b"]),
    );
    explained(
        &query,
        &expect![[r#"
        served by an index: (c["type"] = "ticket" AND (ENDSWITH(c["state"], "en") OR STRINGEQUALS(c["state"], "DONE", true)) AND (ARRAY_CONTAINS(c["labels"], "a") OR ARRAY_CONTAINS(c["labels"], "b")))
          range index /type
          range index /labels
          scan of the range index /state
    "#]],
    );
    let seek = Query::<Ticket>::across_partitions().filter(state.starts_with("op"));
    let scan = Query::<Ticket>::across_partitions().filter(state.contains("pe"));
    let policy = IndexingPolicy::of::<Desk>();
    assert!(in_desk(&seek, &policy).scanned_indexes.is_empty());
    assert_eq!(in_desk(&scan, &policy).scanned_indexes, ["/state"]);
    assert!(in_desk(&scan, &policy).is_narrowed());
    let mut policy = policy;
    policy.included_paths.clear();
    assert_eq!(in_desk(&scan, &policy).leftover.len(), 2);
}

#[test]
fn criteria_search_in_text_and_arrays() {
    let criterion = |field: &str, operator, value| Criterion {
        field: field.to_owned(),
        operator,
        value,
    };
    let filter = Filter::<Ticket>::from_criteria(&[
        criterion("state", Operator::ContainsText, json!("pe")),
        criterion("state", Operator::EndsWith, json!("n")),
        criterion("labels", Operator::Contains, json!("late")),
    ])
    .expect("the criteria are valid");
    let query = Query::in_partition("red").filter(filter);
    let explanation = in_desk(&query, &IndexingPolicy::of::<Desk>());
    assert_eq!(
        explanation.condition,
        concat!(
            r#"(c["type"] = "ticket" AND CONTAINS(c["state"], "pe") "#,
            r#"AND ENDSWITH(c["state"], "n") AND ARRAY_CONTAINS(c["labels"], "late"))"#
        )
    );
    for operator in [Operator::ContainsText, Operator::EndsWith] {
        let number = criterion("state", operator, json!(7));
        assert!(Filter::<Ticket>::from_criteria(&[number]).is_err());
    }
}

#[test]
fn without_its_index_a_query_scans_and_its_sort_is_refused() {
    let mut policy = IndexingPolicy::of::<Desk>();
    policy.included_paths.clear();
    policy.composite_indexes.clear();
    let query = Query::<Ticket>::across_partitions().order_by(Ticket::BY_AGE);
    let explanation = in_desk(&query, &policy);
    assert!(!explanation.is_served());
    assert_eq!(explanation.refused, ["/type, /state, /openedAt"]);
}

#[test]
fn differences_name_the_cost_and_ignore_additions_of_the_service() {
    let model = IndexingPolicy::of::<Desk>();
    let live: IndexingPolicy = serde_json::from_value(json!({
        "indexingMode": "consistent",
        "automatic": true,
        "includedPaths": [
            { "path": "/closedAt/?" }, { "path": "/openedAt/?" }, { "path": "/type/?" }, { "path": "/labels/[]/?" }, { "path": "/old/?" },
        ],
        "excludedPaths": [{ "path": "/text/*" }, { "path": "/*" }, { "path": "/\"_etag\"/?" }],
        "compositeIndexes": [[
            { "path": "/type", "order": "descending" },
            { "path": "/state", "order": "descending" },
            { "path": "/openedAt", "order": "ascending" },
        ]],
        "spatialIndexes": [],
        "vectorIndexes": [],
        "fullTextIndexes": [],
    }))
    .expect("the service's form");
    let differences = model.differences_of(&live);
    assert_eq!(
        differences,
        [
            PolicyDifference::MissingPath("/state/?".to_owned()),
            PolicyDifference::SuperfluousPath("/old/?".to_owned()),
        ]
    );
    assert!(differences[0].breaks_queries() && !differences[1].breaks_queries());
    expect!["`/state/?` is not indexed; queries on it scan. Adding it re-indexes with spare request units"]
        .assert_eq(&differences[0].to_string());
}

fn criterion(field: &str, operator: Operator, value: Value) -> Criterion {
    Criterion {
        field: field.to_owned(),
        operator,
        value,
    }
}

fn refused(criterion: Criterion) -> CriteriaError {
    Filter::<Ticket>::from_criteria(&[criterion]).expect_err("it is invalid")
}

#[test]
fn criteria_use_rust_names_or_stored_names() {
    let criteria: Vec<Criterion> = serde_json::from_value(json!([
        { "field": "state", "value": "open" },
        { "field": "openedAt", "operator": "ge", "value": 7 },
        { "field": "labels", "operator": "contains", "value": "late" },
    ]))
    .expect("criteria");
    let sort = SortCriterion {
        field: "opened_at".to_owned(),
        direction: cdb_model::shape::Direction::Descending,
    };
    let query = Query::<Ticket>::in_partition("red")
        .filter(Filter::from_criteria(&criteria).expect("they are valid"))
        .order_by(Order::from_criterion(&sort).expect("it is valid"));
    expect![[r#"SELECT * FROM c WHERE (c["type"] = @p0 AND c["state"] = @p1 AND c["openedAt"] >= @p2 AND ARRAY_CONTAINS(c["labels"], @p3)) ORDER BY c["openedAt"] DESC"#]]
        .assert_eq(&Fetch::<Desk>::statement(&query).expect("it is valid").sql);
}

#[test]
fn the_error_of_an_invalid_criterion_names_the_reason() {
    expect!["`Ticket` has no field `stat`; its indexed fields are `state`, `opened_at`, `labels`, `closed_at`"]
        .assert_eq(&refused(criterion("stat", Operator::Eq, json!(1))).to_string());
    expect!["`text` of `Ticket` is not indexed; searching by it would scan every document"]
        .assert_eq(&refused(criterion("text", Operator::Eq, json!("x"))).to_string());
    expect!["`state` cannot be compared with [1]: the operator requires a scalar"]
        .assert_eq(&refused(criterion("state", Operator::Eq, json!([1]))).to_string());
    expect!["`state` cannot be compared with 1: `in` requires a list"]
        .assert_eq(&refused(criterion("state", Operator::In, json!(1))).to_string());
}

#[derive(Scalar, Serialize, Deserialize, Clone, Debug)]
enum Priority {
    Low,
    High,
}

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "task", id = "{team}:{number}")]
struct Task {
    #[document(partition_key)]
    team: String,
    number: u32,
    #[document(index)]
    priority: Priority,
    #[document(index)]
    due: Option<u64>,
    #[document(index(serial: TextInteger<u64>, cost: f64))]
    details: BTreeMap<String, Value>,
}

/// The index has `High` before `Low`.
#[test]
fn criteria_compare_and_sort_only_fields_with_their_order_in_the_index() {
    for (field, ordered) in [
        ("priority", false),
        ("due", true),
        ("details.serial", false),
        ("details.cost", true),
    ] {
        let filter =
            |operator| Filter::<Task>::from_criteria(&[criterion(field, operator, json!(1))]);
        assert!(filter(Operator::Eq).is_ok(), "{field}");
        assert_eq!(filter(Operator::Gt).is_ok(), ordered, "{field}");
        let by = |field: &str| SortCriterion {
            field: field.to_owned(),
            direction: cdb_model::shape::Direction::Ascending,
        };
        assert_eq!(
            Order::<Task>::from_criterion(&by(field)).is_ok(),
            ordered,
            "{field}"
        );
        let grouped = Order::<Task>::from_criteria(&[by(field), by("due")]);
        assert!(grouped.is_ok(), "{field}");
    }
    let refused =
        Filter::<Task>::from_criteria(&[criterion("priority", Operator::Lt, json!("High"))]);
    expect!["`priority` of `Task` has no order in the index; filter it by equality"]
        .assert_eq(&refused.expect_err("it has no order").to_string());
}

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "board", id = "{team}:board")]
struct Board {
    #[document(partition_key)]
    team: String,
    #[document(index)]
    width: f64,
    #[document(index)]
    lengths: Vec<f64>,
    /// The keys of a JSON object are strings, so only an empty grid can be serialized.
    grid: BTreeMap<(u8, u8), u8>,
    #[document(index)]
    text: String,
}

#[derive(Container, Clone, Debug)]
enum Boards {
    Board(Board),
}

#[test]
fn a_value_that_cannot_be_serialized_fails_the_query_and_the_patch() {
    let invalid = || {
        [
            Board::WIDTH.eq(f64::NAN),
            Board::WIDTH.is_in([0.0, f64::INFINITY]),
            !Board::WIDTH.ne(f64::NAN) | Filter::none(),
            Board::LENGTHS.contains(f64::NAN) & Board::TEXT.starts_with("a"),
        ]
    };
    for filter in invalid() {
        let query = Query::<Board>::in_partition("red").filter(filter);
        assert!(!query.explain(&IndexingPolicy::of::<Boards>()).is_narrowed());
        let error = Fetch::<Boards>::statement(&query).expect_err("JSON has no such number");
        let text = error.to_string();
        assert!(
            text.contains("NaN and infinity cannot be expressed as JSON"),
            "{text}"
        );
    }
    for filter in invalid() {
        let patch = Patch::new().set(Board::TEXT, "b").when(filter);
        assert!(matches!(
            patch.body(Timestamp::default()),
            Err(PatchError::Value(_))
        ));
    }
    let patch = Patch::new().set(Board::GRID, BTreeMap::from([((1, 2), 3)]));
    let expected =
        "the value for `/grid` is invalid: it cannot be serialized as JSON: key must be a string";
    assert_eq!(
        patch
            .body(Timestamp::default())
            .expect_err("a key is not a string")
            .to_string(),
        expected
    );
}

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "comment", id = "{team}:comment:{number}")]
struct Comment {
    #[document(partition_key)]
    team: String,
    number: u32,
    #[document(index)]
    stars: u32,
    #[document(soft_delete)]
    deleted_at: Option<Timestamp>,
}

#[derive(Container, Clone, Debug)]
enum Forum {
    Ticket(Ticket),
    Comment(Comment),
}

#[test]
fn a_query_of_a_type_with_soft_deletion_excludes_deleted_documents() {
    let policy = IndexingPolicy::of::<Forum>();
    let query = Query::<Comment>::across_partitions().filter(Comment::STARS.gt(3_u32));
    expect![[r#"
        served by an index: (c["type"] = "comment" AND c["stars"] > 3 AND (IS_NULL(c["deleted_at"]) OR NOT (IS_DEFINED(c["deleted_at"]))))
          range index /type
          range index /stars
          checked per document (IS_NULL(c["deleted_at"]) OR NOT (IS_DEFINED(c["deleted_at"])))
    "#]].assert_eq(&query.explain(&policy).to_string());
    let all = query.with_deleted().explain(&policy);
    expect![[r#"
        served by an index: (c["type"] = "comment" AND c["stars"] > 3)
          range index /type
          range index /stars
    "#]]
    .assert_eq(&all.to_string());
    let both = Query::<Forum>::across_partitions().explain(&policy);
    expect![[r#"
        scans every document: (IS_NULL(c["deleted_at"]) OR NOT (IS_DEFINED(c["deleted_at"])) OR NOT (c["type"] = "comment"))
          checked per document (IS_NULL(c["deleted_at"]) OR NOT (IS_DEFINED(c["deleted_at"])) OR NOT (c["type"] = "comment"))
    "#]].assert_eq(&both.to_string());
}
