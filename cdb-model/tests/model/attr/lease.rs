//! `lease`: its stored form, its index, and its conditions.

use cdb_model::operation::{Leasable, Lease};
use cdb_model::query::Explain as _;
use cdb_model::query::statement::Fetch;
use cdb_model::stored::{decode, encode};
use cdb_model::{Container, Document, Patch, Query, Timestamp};
use expect_test::expect;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    packed: bool,
    #[document(lease)]
    #[serde(default)]
    work_lease: Lease,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "parcel", id = "{customer}:parcel:{number}")]
struct Parcel {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(lease)]
    lease: Lease,
}

#[derive(Container)]
enum Shop {
    Order(Order),
    Parcel(Parcel),
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

#[test]
fn only_the_expiry_of_a_lease_is_indexed() {
    let policy = Shop::definition().indexing_policy;
    let included: Vec<_> = policy
        .included_paths
        .iter()
        .map(|entry| &*entry.path)
        .collect();
    assert_eq!(
        included,
        ["/lease/until/?", "/type/?", "/workLease/until/?"]
    );
    assert_eq!(Order::WORK_LEASE.pointer(), "/workLease");
    assert_eq!(Order::WORK_LEASE_UNTIL.pointer(), "/workLease/until");
}

#[test]
fn free_documents_are_found_by_their_expiry() {
    let query = Query::<Order>::across_partitions()
        .filter(Order::LEASE_PATHS.free(at(50)))
        .order_by(Order::WORK_LEASE_UNTIL.asc());
    expect![[r#"SELECT * FROM c WHERE (c["type"] = @p0 AND (c["workLease"]["until"] <= @p1 OR NOT (IS_DEFINED(c["workLease"]["until"])))) ORDER BY c["workLease"]["until"] ASC"#]]
        .assert_eq(&Fetch::<Shop>::statement(&query).expect("it is valid").sql);
    assert!(
        query
            .explain(&Shop::definition().indexing_policy)
            .is_served()
    );
}

#[test]
fn one_index_serves_filter_and_order_if_every_document_has_a_lease() {
    let query = Query::<Parcel>::across_partitions()
        .filter(Parcel::LEASE_PATHS.free(at(50)))
        .order_by(Parcel::LEASE_UNTIL.asc());
    expect![[r#"SELECT * FROM c WHERE (c["type"] = @p0 AND c["lease"]["until"] <= @p1) ORDER BY c["lease"]["until"] ASC"#]].assert_eq(&Fetch::<Shop>::statement(&query).expect("it is valid").sql);
}

#[test]
fn the_fence_is_added_to_the_condition_of_the_patch() {
    let held = Lease::free().taken("ann", "m1", at(60));
    let patch = Patch::<Order>::new()
        .set(Order::PACKED, true)
        .when(Order::WORK_LEASE_UNTIL.gt(at(1)));
    let patch = Order::LEASE_PATHS
        .set(patch, &held.kept("m2", at(90)))
        .when(Order::LEASE_PATHS.fence(&held));
    let condition = r#"from c where (c["workLease"]["until"] > 1 AND c["workLease"]["token"] = 1 AND c["workLease"]["mark"] = "m1")"#;
    let lease = json!({ "holder": "ann", "mark": "m2", "token": 1, "until": 90 });
    let expected = json!({
        "operations": [
            { "op": "set", "path": "/packed", "value": true },
            { "op": "set", "path": "/workLease", "value": lease },
        ],
        "condition": condition,
    });
    assert_eq!(
        serde_json::to_value(patch.body(Timestamp::default()).unwrap()).unwrap(),
        expected
    );
}

#[test]
fn a_document_without_a_lease_is_free() {
    let stored = r#"{"id":"ann:7","type":"order","customer":"ann","number":7,"packed":false,"_etag":"e","_ts":1}"#;
    let mut order = decode::<Shop, Order>(stored).unwrap().document;
    assert_eq!(order.lease(), &Lease::free());
    order.set_lease(Lease::free().taken("ann", "m1", at(60)));
    let json = encode::<Shop, _>(&order, Timestamp::default())
        .unwrap()
        .json;
    expect![[r#"{"id":"ann:7","type":"order","customer":"ann","number":7,"packed":false,"workLease":{"holder":"ann","token":1,"mark":"m1","until":60}}"#]]
        .assert_eq(json.get());
}
