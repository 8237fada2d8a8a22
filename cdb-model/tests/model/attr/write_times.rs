//! `created_at` and `updated_at`: the times of writes.

use cdb_model::operation::{BulkBatch, PatchError};
use cdb_model::stored::{UnknownFields, encode};
use cdb_model::{Batch, Container, Document, DocumentKey as _, Patch, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Document, Serialize, Deserialize, Clone)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "{customer}:order:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(created_at)]
    created_at: Option<Timestamp>,
    #[document(updated_at, index)]
    updated_at: Option<Timestamp>,
    state: String,
}

/// Has one of the times, and fields of newer versions.
#[derive(Document, Serialize, Deserialize, Clone)]
#[document(type = "note", id = "{customer}:note", version = 1)]
struct Note {
    #[document(partition_key)]
    customer: String,
    #[document(created_at)]
    written: Option<Timestamp>,
    #[serde(flatten)]
    #[document(unknown)]
    newer: UnknownFields,
}

#[derive(Document, Serialize, Deserialize, Clone)]
#[document(type = "plain", id = "{customer}:plain")]
struct Plain {
    #[document(partition_key)]
    customer: String,
    state: String,
}

#[derive(Container)]
enum Shop {
    Order(Order),
    Note(Note),
    Plain(Plain),
}

const NOW: Timestamp = Timestamp::from_millis(1_763_721_471_000);

fn order(created_at: Option<Timestamp>) -> Order {
    Order {
        customer: "ann".to_owned(),
        number: 1,
        created_at,
        updated_at: Some(Timestamp::from_millis(1)),
        state: "open".to_owned(),
    }
}

fn plain() -> Plain {
    Plain {
        customer: "ann".to_owned(),
        state: "open".to_owned(),
    }
}

fn sent(batch: &Batch<Shop>, now: Timestamp) -> Vec<Value> {
    let text = serde_json::to_string(&*batch.operations_at(now)).expect("JSON");
    assert!(text.len() < batch.size_bytes(), "{text}");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_write_sets_the_time_of_the_last_write_and_a_missing_time_of_creation() {
    let json = |order: &Order, now| -> Value {
        serde_json::from_str(encode::<Shop, _>(order, now).unwrap().json.get()).unwrap()
    };
    let first = json(&order(None), NOW);
    assert_eq!(
        (&first["createdAt"], &first["updatedAt"]),
        (&json!(1_763_721_471_000_u64), &json!(1_763_721_471_000_u64))
    );
    let known = json(&order(Some(Timestamp::from_millis(7))), NOW);
    assert_eq!(
        (&known["createdAt"], &known["updatedAt"]),
        (&json!(7), &json!(1_763_721_471_000_u64))
    );
    assert_eq!(known["id"], "ann:order:1");
    assert_eq!(known["state"], "open");
    let early = json(&order(None), Timestamp::from_millis(5));
    assert_eq!(early["createdAt"], 5);
    let plain = encode::<Shop, _>(&plain(), NOW).unwrap();
    assert_eq!(
        plain.json.get(),
        r#"{"id":"ann:plain","type":"plain","customer":"ann","state":"open"}"#
    );
}

#[test]
fn the_operations_of_a_batch_have_the_time_at_which_it_is_sent() {
    let mut batch = Batch::<Shop>::new("ann");
    batch.add(order(None).create()).unwrap();
    batch.add(plain().create()).unwrap();
    batch
        .add(order(Some(Timestamp::from_millis(7))).upsert())
        .unwrap();
    batch.add(order(None).replace()).unwrap();
    batch
        .add(order(None).key().patch().set(Order::STATE, "paid"))
        .unwrap();
    batch
        .add(plain().key().patch().set(Plain::STATE, "paid"))
        .unwrap();
    batch.add(order(None).key().delete()).unwrap();
    for millis in [0, 5, 1_763_721_471_000, 9_999_999_999_999] {
        let sent = sent(&batch, Timestamp::from_millis(millis));
        let time = json!(millis);
        assert_eq!(sent[0]["resourceBody"]["createdAt"], time);
        assert_eq!(sent[0]["resourceBody"]["updatedAt"], time);
        assert_eq!(sent[2]["resourceBody"]["createdAt"], 7);
        assert_eq!(sent[2]["resourceBody"]["updatedAt"], time);
        assert_eq!(sent[3]["resourceBody"]["createdAt"], time);
        let operations = json!([
            { "op": "set", "path": "/state", "value": "paid" },
            { "op": "set", "path": "/updatedAt", "value": millis },
        ]);
        assert_eq!(sent[4]["resourceBody"]["operations"], operations);
        assert_eq!(
            sent[5]["resourceBody"]["operations"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
        assert_eq!(
            sent[6],
            json!({ "operationType": "Delete", "id": "ann:order:1" })
        );
    }
}

#[test]
fn an_appended_batch_keeps_its_times() {
    let mut batch = Batch::<Shop>::new("ann");
    batch.add(plain().create()).unwrap();
    let mut more = Batch::<Shop>::new("ann");
    more.add(order(None).create()).unwrap();
    batch.append(&more).unwrap();
    batch.append(&more.clone()).unwrap();
    let sent = sent(&batch, NOW);
    assert_eq!(
        sent[1]["resourceBody"]["createdAt"],
        json!(1_763_721_471_000_u64)
    );
    assert_eq!(
        sent[2]["resourceBody"]["createdAt"],
        json!(1_763_721_471_000_u64)
    );
}

#[test]
fn the_operations_of_a_bulk_have_the_time_at_which_it_is_sent() {
    let mut bulk = BulkBatch::<Shop>::new();
    bulk.add(order(None).upsert()).unwrap();
    bulk.add(plain().create()).unwrap();
    let operations = bulk.operations_at(NOW);
    let sent = serde_json::to_value(&operations[0].operation).unwrap();
    assert_eq!(
        sent["resourceBody"]["updatedAt"],
        json!(1_763_721_471_000_u64)
    );
    assert_eq!(operations[0].partition, order(None).key().partition());
}

#[test]
fn fields_of_newer_versions_stay_beside_the_times() {
    let newer = json!({ "color": "red", "schemaVersion": 2 });
    let note = Note {
        customer: "ann".to_owned(),
        written: None,
        newer: serde_json::from_value(newer).unwrap(),
    };
    let json = encode::<Shop, _>(&note, NOW).unwrap().json;
    let json: Value = serde_json::from_str(json.get()).unwrap();
    let expected = json!({
        "id": "ann:note", "type": "note", "customer": "ann", "color": "red", "schemaVersion": 2,
        "written": 1_763_721_471_000_u64,
    });
    assert_eq!(json, expected);
}

#[test]
fn the_time_of_the_last_write_counts_as_a_change_of_a_patch() {
    let patch = |changes: u64| {
        (0..changes).fold(Patch::<Order>::new(), |patch, _| {
            patch.set(Order::STATE, String::new())
        })
    };
    assert_eq!(patch(9).body(NOW).unwrap().operations.len(), 10);
    let refused = patch(10).body(NOW);
    assert!(
        matches!(refused, Err(PatchError::TooMany { count: 11, .. })),
        "{refused:?}"
    );
    assert!(matches!(patch(0).body(NOW), Err(PatchError::Empty { .. })));
}
