//! What serves a query, what drifts, and what a search form may ask.

use cdb_model::{
    Container, CriteriaError, Criterion, Document, Drift, Filter, IndexingPolicy, Operator, Order,
    Query, SortCriterion,
};
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
}

#[derive(Container, Clone, Debug)]
#[container(partition_key = "/team")]
enum Desk {
    Ticket(Ticket),
}

fn explained(query: &Query<Ticket>, expected: &Expect) {
    expected.assert_eq(
        &query
            .explain(&IndexingPolicy::of::<Desk>(), "type")
            .to_string(),
    );
}

#[test]
fn a_declared_composite_serves_a_sort_and_its_inverse() {
    let query = Query::<Ticket>::across_partitions()
        .filter(Ticket::STATE.eq("open"))
        .order_by(Ticket::BY_AGE.desc());
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
fn what_no_index_narrows_is_left_over() {
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
fn a_policy_without_the_index_shows_as_a_scan_and_as_a_refused_sort() {
    let mut policy = IndexingPolicy::of::<Desk>();
    policy.included_paths.clear();
    policy.composite_indexes.clear();
    let query = Query::<Ticket>::across_partitions().order_by(Ticket::BY_AGE.asc());
    let explanation = query.explain(&policy, "type");
    assert!(!explanation.is_served());
    assert_eq!(explanation.refused, ["/type, /state, /openedAt"]);
}

#[test]
fn drift_is_named_and_priced_and_the_service_s_own_additions_are_none() {
    let model = IndexingPolicy::of::<Desk>();
    let live: IndexingPolicy = serde_json::from_value(json!({
        "indexingMode": "consistent",
        "automatic": true,
        "includedPaths": [
            { "path": "/openedAt/?" }, { "path": "/type/?" }, { "path": "/labels/[]/?" }, { "path": "/old/?" },
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
    let drift = model.drift_of(&live);
    assert_eq!(
        drift,
        [
            Drift::MissingPath("/state/?".to_owned()),
            Drift::SuperfluousPath("/old/?".to_owned()),
        ]
    );
    assert!(drift[0].breaks_queries() && !drift[1].breaks_queries());
    expect!["`/state/?` is not indexed; queries on it scan. Adding it re-indexes with spare request units"]
        .assert_eq(&drift[0].to_string());
}

fn criterion(field: &str, operator: Operator, value: Value) -> Criterion {
    Criterion {
        field: field.to_owned(),
        operator,
        value,
    }
}

fn refused(criterion: Criterion) -> CriteriaError {
    Filter::<Ticket>::from_criteria(&[criterion]).expect_err("it is refused")
}

#[test]
fn criteria_from_a_form_become_a_query_by_rust_or_stored_name() {
    let criteria: Vec<Criterion> = serde_json::from_value(json!([
        { "field": "state", "value": "open" },
        { "field": "openedAt", "operator": "ge", "value": 7 },
        { "field": "labels", "operator": "contains", "value": "late" },
    ]))
    .expect("criteria");
    let sort = SortCriterion {
        field: "opened_at".to_owned(),
        direction: cdb_model::Direction::Descending,
    };
    let query = Query::<Ticket>::in_partition("red")
        .filter(Filter::from_criteria(&criteria).expect("they can be asked"))
        .order_by(Order::from_criterion(&sort).expect("it can be sorted by"));
    expect![[r#"SELECT * FROM c WHERE (c["type"] = @p0 AND c["state"] = @p1 AND c["openedAt"] >= @p2 AND ARRAY_CONTAINS(c["labels"], @p3)) ORDER BY c["openedAt"] DESC"#]]
        .assert_eq(&cdb_model::Fetch::<Desk>::statement(&query).sql);
}

#[test]
fn criteria_that_cannot_be_asked_say_why() {
    expect!["`Ticket` has no field `stat`; did you mean `state`?"]
        .assert_eq(&refused(criterion("stat", Operator::Eq, json!(1))).to_string());
    expect!["`text` of `Ticket` is not indexed; searching by it would scan every document"]
        .assert_eq(&refused(criterion("text", Operator::Eq, json!("x"))).to_string());
    expect!["`state` cannot be compared with [1]: a scalar is wanted"]
        .assert_eq(&refused(criterion("state", Operator::Eq, json!([1]))).to_string());
    expect!["`state` cannot be compared with 1: `in` takes a list"]
        .assert_eq(&refused(criterion("state", Operator::In, json!(1))).to_string());
}
