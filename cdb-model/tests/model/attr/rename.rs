//! `#[serde(rename…)]`: the derive and serde use the same stored names, for each rule.

#![expect(non_snake_case, reason = "users write such names too")]

use cdb_model::Document;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Names that the rules treat differently, stored under every rule.
macro_rules! documents {
    ($($name:ident $rule:literal),* $(,)?) => {$(
        #[derive(Document, Serialize, Deserialize, Default)]
        #[serde(rename_all = $rule)]
        #[document(type = "names", id = "names")]
        struct $name {
            #[document(partition_key)]
            customer: String,
            customer_id: u8,
            a: u8,
            z42: u8,
            very_long_name_2: u8,
            _leading: u8,
            trailing_: u8,
            two__underscores: u8,
            camelAlready: u8,
            r#type: u8,
            größe: u8,
            #[serde(rename = "Ünïcode name")]
            renamed: u8,
        }
    )*

        #[test]
        fn stored_names_are_those_that_serde_writes() {
            $(check(&$name::default(), $rule);)*
        }
    };
}

documents! {
    Lower "lowercase",
    Upper "UPPERCASE",
    Pascal "PascalCase",
    Camel "camelCase",
    Snake "snake_case",
    ScreamingSnake "SCREAMING_SNAKE_CASE",
    Kebab "kebab-case",
    ScreamingKebab "SCREAMING-KEBAB-CASE",
}

fn check<D: Document + Serialize>(document: &D, rule: &str) {
    let written = serde_json::to_value(document).expect("numbers and strings can be serialized");
    let Value::Object(written) = written else {
        panic!("a struct is serialized as an object");
    };
    let mut ours: Vec<_> = D::SHAPE
        .fields
        .iter()
        .map(|field| field.path.to_owned())
        .collect();
    let mut serdes: Vec<_> = written.keys().map(|name| format!("/{name}")).collect();
    ours.sort();
    serdes.sort();
    assert_eq!(ours, serdes, "{rule}");
}
