//! `id`: keys are formatted as ids and parsed back.

use cdb_model::shape::IdSegment;
use cdb_model::value::SEPARATORS;
use cdb_model::{Document, DocumentKey, PartitionKey};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "all", id = "{a}:{b}|{c};{d},{e}")]
struct AllSeparators {
    #[document(partition_key)]
    a: String,
    b: i8,
    c: i64,
    d: bool,
    e: String,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "twice", id = "{tenant}:{number}:{tenant}")]
struct Twice {
    #[document(partition_key)]
    tenant: String,
    number: u32,
}

/// The field names equal those of likely local variables of generated code.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "names", id = "{reader}:{type}:{writer}")]
struct Names {
    #[document(partition_key)]
    reader: String,
    r#type: String,
    writer: String,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "settings", id = "settings")]
struct Settings {
    #[document(partition_key)]
    tenant: String,
}

#[test]
fn every_separator_ends_a_placeholder() {
    let key = AllSeparatorsKey::new("x:y|z;,", 7, -3_i64, true, "");
    let id = key.to_id().unwrap();
    assert_eq!(id.as_str(), "x~3Ay~7Cz~3B~2C:7|-3;true,~");
    assert_eq!(AllSeparatorsKey::parse(id.as_str()).unwrap(), key);
    let literals = AllSeparators::SHAPE
        .id
        .iter()
        .filter_map(|segment| match segment {
            IdSegment::Literal(text) => text.chars().next(),
            IdSegment::Field(_) => None,
        });
    assert_eq!(
        literals.collect::<Vec<_>>(),
        SEPARATORS,
        "the derive and the model know the same separators"
    );
}

#[test]
fn a_repeated_field_is_one_field_of_the_key() {
    let key = TwiceKey::new("t", 1);
    assert_eq!(key.to_id().unwrap().as_str(), "t:1:t");
    assert_eq!(TwiceKey::parse("t:1:t").unwrap(), key);
    let error = TwiceKey::parse("t:1:u").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`tenant` has two different values"),
        "{error}"
    );
}

#[test]
fn fields_may_have_any_name() {
    let key = NamesKey::new("a", "b", "c");
    assert_eq!(NamesKey::parse(key.to_id().unwrap().as_str()).unwrap(), key);
    assert_eq!(key.r#type, "b");
}

#[test]
fn a_pattern_without_placeholders_has_one_key() {
    let settings = Settings {
        tenant: "t".to_owned(),
    };
    assert_eq!(settings.key(), SettingsKey::new());
    assert_eq!(settings.key().to_id().unwrap().as_str(), "settings");
    assert!(SettingsKey::parse("settings:1").is_err());
    assert_eq!(settings.partition_key(), PartitionKey::from("t"));
}

#[test]
fn keys_are_ordered_and_hashable() {
    let keys: std::collections::BTreeSet<_> = [TwiceKey::new("b", 1), TwiceKey::new("a", 2)].into();
    assert_eq!(keys.first(), Some(&TwiceKey::new("a", 2)));
}
