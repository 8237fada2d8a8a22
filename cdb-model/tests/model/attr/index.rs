//! `index` and `unindexed`: the paths of the policy.

use std::collections::{BTreeMap, BTreeSet};

use cdb_model::document::{Patchable, Path, Unindexed};
use cdb_model::query::statement::Fetch;
use cdb_model::query::{
    CriteriaError, Criterion, Explain as _, Filter, Operator, Order as Sort, SortCriterion,
};
use cdb_model::shape::{Direction, FieldIndexing};
use cdb_model::{Container, Document, Query};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "order")]
struct Order {
    #[document(partition_key)]
    customer: String,
    #[document(index)]
    total_cents: u64,
    #[document(index)]
    tags: Option<Vec<String>>,
    #[document(index)]
    labels: BTreeSet<String>,
    #[document(index(city: String, zipCode: u32, lines[].sku: String), paths(street: String))]
    ship_to: Address,
    #[document(unindexed)]
    remark: String,
    note: String,
    #[serde(skip)]
    #[expect(dead_code, reason = "it is never read back")]
    cached: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Address {
    city: String,
    zip_code: u32,
    street: String,
}

fn paths(indexing: FieldIndexing) -> Vec<&'static str> {
    let fields = Order::SHAPE.fields.iter();
    fields
        .filter(|field| field.indexing == indexing)
        .map(|field| field.path)
        .collect()
}

#[test]
fn indexed_paths_are_included_and_arrays_are_indexed_by_element() {
    assert_eq!(
        paths(FieldIndexing::Indexed),
        [
            "/totalCents",
            "/tags/[]",
            "/labels/[]",
            "/shipTo/city",
            "/shipTo/zipCode",
            "/shipTo/lines/[]/sku"
        ]
    );
}

#[test]
fn only_marked_paths_are_excluded_by_name() {
    assert_eq!(paths(FieldIndexing::Excluded), ["/remark"]);
    assert_eq!(
        paths(FieldIndexing::NotIndexed),
        ["/customer", "/shipTo", "/shipTo/street", "/note"]
    );
}

#[test]
fn nested_paths_are_constants_with_the_declared_type() {
    let _: [Filter<Order>; 2] = [
        Order::SHIP_TO_CITY.eq("Köln"),
        Order::SHIP_TO_ZIP_CODE.gt(50_000_u32),
    ];
    let nested = [
        Order::SHIP_TO_CITY.pointer(),
        Order::SHIP_TO_ZIP_CODE.pointer(),
    ];
    assert_eq!(nested, ["/shipTo/city", "/shipTo/zipCode"]);
    let _: Path<Order, String, Unindexed, Patchable> = Order::SHIP_TO_STREET;
}

#[test]
fn a_field_that_serde_skips_has_no_path() {
    assert!(
        Order::SHAPE
            .fields
            .iter()
            .all(|field| field.name != "cached")
    );
}

#[derive(Document, Serialize, Deserialize, Debug)]
#[document(type = "ticket", id = "ticket")]
struct Ticket {
    #[document(partition_key)]
    customer: String,
    #[document(index(*))]
    labels: BTreeMap<String, String>,
}

#[derive(Container)]
enum Tickets {
    Ticket(Ticket),
}

#[test]
fn an_indexed_subtree_is_one_path_of_the_policy_and_serves_every_path_inside() {
    let policy = Tickets::definition().indexing_policy;
    let included = policy.included_paths.iter().map(|entry| &*entry.path);
    assert_eq!(included.collect::<Vec<_>>(), ["/labels/*"]);
    let criterion = |field: &str| Criterion {
        field: field.to_owned(),
        operator: Operator::Eq,
        value: "high".into(),
    };
    let filter = Filter::<Ticket>::from_criteria(&[criterion("labels.priority")]);
    let query = Query::across_partitions().filter(filter.expect("every path inside is indexed"));
    let explained = query.explain(&policy);
    assert_eq!(explained.range_indexes, ["/labels/priority"]);
    assert_eq!(
        explained.condition,
        r#"(c["type"] = "ticket" AND c["labels"]["priority"] = "high")"#
    );
    for field in ["labels", "labels.", "labelsX"] {
        Filter::<Ticket>::from_criteria(&[criterion(field)]).expect_err(field);
    }
    let sort = SortCriterion {
        field: "labels.*".to_owned(),
        direction: Direction::Ascending,
    };
    let refused = Sort::<Ticket>::from_criterion(&sort).expect_err("no single path");
    assert!(matches!(refused, CriteriaError::NotIndexed { .. }));
}

#[test]
fn a_sort_by_paths_inside_an_indexed_subtree_needs_a_composite_only_for_several() {
    let mut policy = Tickets::definition().indexing_policy;
    let term = |field: &str, direction| SortCriterion {
        field: field.to_owned(),
        direction,
    };
    let terms = [
        term("labels.priority", Direction::Ascending),
        term("labels.team", Direction::Descending),
    ];
    let sorted = |terms: &[SortCriterion]| {
        let order = Sort::<Ticket>::from_criteria(terms).expect("every path inside is indexed");
        Query::<Ticket>::across_partitions().order_by(order)
    };
    let explained = |terms, policy: &_| sorted(terms).explain(policy);
    assert!(explained(&terms[..1], &policy).refused.is_empty());
    assert_eq!(
        explained(&terms, &policy).refused,
        ["/labels/priority, /labels/team"]
    );
    let index = r#"[{"path":"/labels/priority","order":"descending"},{"path":"/labels/team","order":"ascending"}]"#;
    let index = serde_json::from_str(index).expect("an index");
    policy.composite_indexes.push(index);
    assert!(explained(&terms, &policy).refused.is_empty());
    let statement = Fetch::<Tickets>::statement(&sorted(&terms)).expect("it is valid");
    let order = r#"ORDER BY c["labels"]["priority"] ASC, c["labels"]["team"] DESC"#;
    assert!(statement.sql.ends_with(order), "{}", statement.sql);
}
