//! Properties of ids, policies, literals and paths for any value.

use std::collections::BTreeSet;

use cdb_model::limits::{MAX_ID_BYTES, MAX_PARTITION_KEY_BYTES};
use cdb_model::policy::IndexingPolicy;
use cdb_model::shape::FieldIndexing;
use cdb_model::stored::encode;
use cdb_model::{Container, Document, DocumentKey, PartitionKey, Patch, Timestamp};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "thing", id = "{owner}:thing:{name}|{number}")]
#[document(composite(BY_SIZE = r#type, size, number desc))]
struct Thing {
    #[document(partition_key)]
    owner: String,
    name: String,
    #[document(index)]
    number: u64,
    #[document(index)]
    size: i64,
    #[document(index)]
    tags: Vec<String>,
    #[document(index(city: String))]
    place: Place,
    #[document(unindexed)]
    free_text: Option<String>,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Place {
    city: String,
}

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "other", id = "{owner}:other")]
#[document(composite(BY_SIZE = r#type desc, size desc, number))]
struct Other {
    #[document(partition_key)]
    owner: String,
    #[document(index)]
    size: i64,
    #[document(index)]
    number: u64,
    #[document(unindexed)]
    blob: String,
}

#[derive(Container, Clone, Debug)]
enum Forward {
    Thing(Thing),
    Other(Other),
}

#[derive(Container, Clone, Debug)]
enum Backward {
    Other(Other),
    Thing(Thing),
}

#[derive(Container, Clone, Debug)]
enum Larger {
    #[container(extends)]
    Forward(Forward),
    More(More),
}

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "more", id = "{owner}:more")]
struct More {
    #[document(partition_key)]
    owner: String,
}

/// Any Unicode text, with many of the characters that ids have to escape.
fn text() -> impl Strategy<Value = String> {
    let awkward =
        proptest::string::string_regex("[:|;,~%/\\\\?#. \\x00-\\x1f\\x7f\u{80}-\u{9f}a]{0,12}")
            .expect("a pattern");
    prop_oneof![any::<String>(), awkward, "[a-z]{0,5}"]
}

fn thing(owner: String, name: String, number: u64) -> Thing {
    Thing {
        owner,
        name,
        number,
        size: -3,
        tags: vec!["a".to_owned()],
        place: Place {
            city: "Ulm".to_owned(),
        },
        free_text: Some("text".to_owned()),
    }
}

proptest! {
    #[test]
    fn any_text_can_be_formatted_as_an_id_and_parsed_back(owner in text(), name in text(), number in 0..u64::MAX) {
        let key = ThingKey::new(owner, name, number);
        let Ok(id) = key.to_id() else {
            prop_assert!(key.owner.len() + key.name.len() > MAX_ID_BYTES / 4);
            return Ok(());
        };
        let id = id.as_str();
        prop_assert!(id.len() <= MAX_ID_BYTES && !id.is_empty());
        prop_assert!(!id.contains(|c: char| c.is_control() || "/\\?#%".contains(c)), "{id:?}");
        prop_assert!(!id.ends_with(' ') && id != "." && id != "..", "{id:?}");
        prop_assert_eq!(ThingKey::parse(id), Ok(key));
    }

    #[test]
    fn different_keys_have_different_ids(
        a in (text(), text(), 0..3_u64),
        b in (text(), text(), 0..3_u64),
    ) {
        let key = |(owner, name, number): (String, String, u64)| ThingKey::new(owner, name, number);
        let (a, b) = (key(a), key(b));
        if let (Ok(id_a), Ok(id_b)) = (a.to_id(), b.to_id()) {
            prop_assert_eq!(a == b, id_a == id_b);
        }
    }

    #[test]
    fn only_the_canonical_id_of_a_key_is_parsed(id in any::<String>()) {
        if let Ok(key) = ThingKey::parse(&id) {
            let written = key.to_id().expect("it was read from an id");
            prop_assert_eq!(written.as_str(), id);
        }
    }

    #[test]
    fn a_partition_key_header_is_ascii_with_the_same_value(value in any::<String>()) {
        prop_assume!(value.len() <= MAX_PARTITION_KEY_BYTES);
        let header = PartitionKey::from(&*value).to_header();
        prop_assert!(header.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        let back: Vec<String> = serde_json::from_str(&header).expect("it is JSON");
        prop_assert_eq!(back, [value]);
    }

    #[test]
    fn a_literal_in_a_patch_condition_has_the_same_value(value in any::<String>()) {
        let patch = Patch::<Thing>::new()
            .set(Thing::SIZE, 1)
            .when(Thing::PLACE_CITY.eq(&*value));
        let condition = patch.body(Timestamp::default()).expect("a patch").condition.expect("a condition");
        let literal = condition.strip_prefix(r#"from c where c["place"]["city"] = "#).expect("the path");
        let read: String = serde_json::from_str(literal).expect("a JSON literal");
        prop_assert_eq!(read, value);
    }

    #[test]
    fn a_document_is_decoded_as_it_was_encoded(owner in "[a-z]{1,9}", name in text(), number in 0..1_u64 << 53) {
        let before = thing(owner, name, number);
        if let Ok(encoded) = encode::<Forward, _>(&before, Timestamp::default()) {
            let stored = encoded.json.get().replacen('{', r#"{"_etag":"e","_ts":1,"#, 1);
            let after = cdb_model::stored::decode::<Forward, Thing>(&stored).expect("it is a thing");
            prop_assert_eq!(after.document, before);
        }
    }
}

#[test]
fn the_stored_document_has_every_path_of_the_policy() {
    let encoded = encode::<Forward, _>(
        &thing("o".to_owned(), "n".to_owned(), 1),
        Timestamp::default(),
    )
    .expect("it fits");
    let stored: Value = serde_json::from_str(encoded.json.get()).expect("it is JSON");
    for field in Thing::SHAPE.fields {
        let pointer = field.path.replace("/[]", "/0");
        assert!(
            stored.pointer(&pointer).is_some(),
            "{} is not stored",
            field.path
        );
    }
    let paths = Thing::SHAPE
        .fields
        .iter()
        .filter(|field| field.indexing == FieldIndexing::Indexed);
    let included: BTreeSet<String> = IndexingPolicy::of::<Forward>()
        .included_paths
        .into_iter()
        .map(|path| path.path)
        .collect();
    for path in paths {
        assert!(
            included.contains(&format!("{}/?", path.path)),
            "{}",
            path.path
        );
    }
}

#[test]
fn the_order_and_repetition_of_types_do_not_change_the_policy() {
    let forward = IndexingPolicy::of::<Forward>();
    assert_eq!(forward, IndexingPolicy::of::<Backward>());
    // `More` adds no index, and the types of `Forward` are merged again.
    assert_eq!(forward, IndexingPolicy::of::<Larger>());
    // The composites of both types are reverses of each other: one index.
    assert_eq!(forward.composite_indexes.len(), 1);
}

#[test]
fn a_printed_policy_is_parsed_unchanged() {
    let policy = IndexingPolicy::of::<Forward>();
    let read: IndexingPolicy = serde_json::from_str(&policy.to_json_pretty()).expect("a policy");
    assert_eq!(read, policy);
    assert!(policy.differences_of(&read).is_empty());
}
