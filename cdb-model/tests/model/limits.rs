//! Every limit of the service that the model checks when the program runs: its value is accepted, and
//! one more is refused. `cdb-emulator/tests/service/limits.rs` has the sources; limits that the derives
//! check are in `tests/ui`.

#![expect(
    clippy::unwrap_used,
    clippy::type_complexity,
    reason = "helpers of tests, and a table"
)]

use cdb_model::container::ContainerDefinition;
use cdb_model::limits::{
    MAX_BATCH_OPERATIONS, MAX_COMPOSITES, MAX_COMPUTED_PROPERTIES, MAX_DOCUMENT_BYTES,
    MAX_ID_BYTES, MAX_PATCH_OPERATIONS, MAX_POLICY_PATHS, MAX_TTL_SECONDS, MAX_UNIQUE_KEYS,
};
use cdb_model::stored::encode;
use cdb_model::{Batch, Container, Document, DocumentKey as _, Patch, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "item", id = "item:{name}")]
struct Item {
    #[document(partition_key)]
    owner: String,
    name: String,
    text: String,
    number: u64,
    #[document(ttl)]
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<i32>,
}

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "session", id = "session")]
struct Session {
    #[document(partition_key)]
    owner: String,
    #[document(ttl)]
    ttl: u32,
}

#[derive(Container, Clone, Debug)]
enum Items {
    Item(Item),
    Session(Session),
}

fn item() -> Item {
    Item {
        owner: "o".to_owned(),
        name: "n".to_owned(),
        text: String::new(),
        number: 1,
        ttl: None,
    }
}

fn is_stored(item: &Item) -> bool {
    encode::<Items, _>(item, Timestamp::default()).is_ok()
}

/// A definition whose list has this many entries.
fn is_defined(list: &str, entry: &Value, count: i64) -> bool {
    let mut definition = serde_json::to_value(Items::definition()).unwrap();
    let entries = vec![entry.clone(); usize::try_from(count).unwrap()];
    *definition.pointer_mut(list).unwrap() = entries.into();
    let definition: ContainerDefinition = serde_json::from_value(definition).unwrap();
    definition.check_limits().is_ok()
}

fn as_i64(limit: usize) -> i64 {
    i64::try_from(limit).unwrap()
}

fn repeated(count: i64) -> String {
    "x".repeat(usize::try_from(count).unwrap())
}

/// The limits, and whether the model accepts a length or number.
fn limits() -> Vec<(&'static str, i64, fn(i64) -> bool)> {
    vec![
        ("bytes of an id", as_i64(MAX_ID_BYTES), |n| {
            ItemKey::new(repeated(n - 5)).to_id().is_ok()
        }),
        ("bytes of a document", as_i64(MAX_DOCUMENT_BYTES), |n| {
            let empty = encode::<Items, _>(&item(), Timestamp::default()).unwrap();
            let text = repeated(n - as_i64(empty.json.get().len()));
            is_stored(&Item { text, ..item() })
        }),
        ("seconds to live", MAX_TTL_SECONDS, |n| {
            let session = Session {
                owner: "o".to_owned(),
                ttl: u32::try_from(n).unwrap(),
            };
            encode::<Items, _>(&session, Timestamp::default()).is_ok()
        }),
        ("seconds to live of a patch", MAX_TTL_SECONDS, |n| {
            let seconds = u32::try_from(n).unwrap();
            let patch = Patch::<Session>::new().set(Session::TTL, seconds);
            patch.body(Timestamp::default()).is_ok()
        }),
        ("operations of a batch", as_i64(MAX_BATCH_OPERATIONS), |n| {
            let mut batch = Batch::<Items>::new("o");
            (0..n).all(|_| batch.add(item().upsert()).is_ok())
        }),
        ("operations of a patch", as_i64(MAX_PATCH_OPERATIONS), |n| {
            let set = |patch: Patch<Item>, _| patch.set(Item::NUMBER, 1);
            let patch = (0..n).fold(Patch::new(), set);
            patch.body(Timestamp::default()).is_ok()
        }),
        // Larger ones are rounded: the service stores IEEE 754 doubles.
        ("exact integers", (1 << 53) - 1, |n| {
            let number = u64::try_from(n).unwrap();
            is_stored(&Item { number, ..item() })
        }),
        ("included paths", as_i64(MAX_POLICY_PATHS), |n| {
            is_defined(
                "/indexingPolicy/includedPaths",
                &json!({ "path": "/a/?" }),
                n,
            )
        }),
        ("excluded paths", as_i64(MAX_POLICY_PATHS), |n| {
            is_defined(
                "/indexingPolicy/excludedPaths",
                &json!({ "path": "/a/?" }),
                n,
            )
        }),
    ]
}

#[test]
fn a_limit_is_accepted_and_one_more_is_refused() {
    for (name, most, accepts) in limits() {
        assert!(accepts(most), "{most} {name}");
        assert!(!accepts(most + 1), "{} {name}", most + 1);
    }
}

#[test]
fn lists_of_a_container_have_their_limits() {
    let mut definition = Items::definition();
    let composite = serde_json::from_value(json!([{ "path": "/a" }, { "path": "/b" }]));
    definition.indexing_policy.composite_indexes = vec![composite.unwrap(); MAX_COMPOSITES];
    let key = serde_json::from_value(json!({ "paths": ["/a"] }));
    definition.unique_key_policy.unique_keys = vec![key.unwrap(); MAX_UNIQUE_KEYS];
    let property = json!({ "name": "p", "query": "SELECT VALUE c.a FROM c" });
    let property = serde_json::from_value(property);
    definition.computed_properties = vec![property.unwrap(); MAX_COMPUTED_PROPERTIES];
    assert_eq!(definition.check_limits(), Ok(()));
    for change in [
        |definition: &mut ContainerDefinition| {
            let composites = &mut definition.indexing_policy.composite_indexes;
            composites.push(composites[0].clone());
        },
        |definition: &mut ContainerDefinition| {
            let keys = &mut definition.unique_key_policy.unique_keys;
            keys.push(keys[0].clone());
        },
        |definition: &mut ContainerDefinition| {
            let properties = &mut definition.computed_properties;
            properties.push(properties[0].clone());
        },
    ] {
        let mut larger = definition.clone();
        change(&mut larger);
        assert!(larger.check_limits().is_err());
    }
}

#[test]
fn a_time_to_live_is_at_least_one_second_or_never() {
    for (ttl, accepted) in [(1, true), (-1, true), (0, false), (-2, false)] {
        let document = Item {
            ttl: Some(ttl),
            ..item()
        };
        assert_eq!(is_stored(&document), accepted, "{ttl}");
        let patch = Patch::<Item>::new().set(Item::TTL, ttl);
        assert_eq!(patch.body(Timestamp::default()).is_ok(), accepted, "{ttl}");
    }
    // The service refuses `null`.
    let never = Patch::<Item>::new().set(Item::TTL, None);
    let error = never.body(Timestamp::default()).unwrap_err().to_string();
    assert!(error.contains("a time to live of null"), "{error}");
}
