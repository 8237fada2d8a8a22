//! `index` and `unindexed`: the paths of the policy.

use std::collections::BTreeSet;

use cdb_model::{Document, FieldIndexing, Filter};
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
    #[document(index(city: String, zipCode: u32, lines[].sku: String))]
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
        ["/customer", "/shipTo", "/note"]
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
