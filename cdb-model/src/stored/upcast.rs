//! Steps of upcasts. The old field stays, so that older programs can still read the document; a type
//! with a version keeps it among its unknown fields.
//!
//! ```
//! use cdb_model::shape::UpcastError;
//! use cdb_model::stored::upcast;
//! use serde_json::{Map, Value, json};
//!
//! fn divide_name(fields: &mut Map<String, Value>) -> Result<(), UpcastError> {
//!     upcast::rename(fields, "customer_number", "number")?;
//!     upcast::split(fields, "name", " ", ["firstName", "lastName"])
//! }
//!
//! fn main() -> Result<(), UpcastError> {
//!     let mut fields = Map::from_iter([
//!         ("customer_number".to_owned(), json!(7)),
//!         ("name".to_owned(), json!("Ada Lovelace")),
//!     ]);
//!     divide_name(&mut fields)?;
//!     assert_eq!((&fields["number"], &fields["lastName"]), (&json!(7), &json!("Lovelace")));
//!     Ok(())
//! }
//! ```

use serde_json::{Map, Value};

use crate::shape::UpcastError;

/// Gives a field a new name. A document without the field stays as it is.
///
/// # Errors
/// When the document has another field of the new name, with another value.
pub fn rename(fields: &mut Map<String, Value>, old: &str, new: &str) -> Result<(), UpcastError> {
    let Some(value) = fields.get(old).cloned() else {
        return Ok(());
    };
    match fields.get(new) {
        Some(other) if *other != value => {
            Err(format!("`{old}` cannot be renamed, because it has another `{new}`").into())
        }
        _ => {
            fields.insert(new.to_owned(), value);
            Ok(())
        }
    }
}

/// Splits a text at its first separator into two fields. Without a separator, the second is empty.
///
/// # Errors
/// When the document has no such field, or the field is not a text.
pub fn split(
    fields: &mut Map<String, Value>,
    field: &str,
    separator: &str,
    parts: [&str; 2],
) -> Result<(), UpcastError> {
    let text = fields.get(field).and_then(Value::as_str);
    let text = text.ok_or_else(|| format!("it has no text `{field}`"))?;
    let (first, rest) = text.split_once(separator).unwrap_or((text, ""));
    let values = [Value::from(first), Value::from(rest)];
    for (part, value) in parts.into_iter().zip(values) {
        fields.insert(part.to_owned(), value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn upcast(
        step: impl Fn(&mut Map<String, Value>) -> Result<(), UpcastError>,
        fields: Value,
    ) -> Result<Value, String> {
        let Value::Object(mut fields) = fields else {
            unreachable!("an object");
        };
        step(&mut fields).map_err(|error| error.to_string())?;
        Ok(Value::Object(fields))
    }

    #[test]
    fn a_renamed_field_has_both_names_and_loses_nothing() {
        let rename = |fields: &mut Map<_, _>| rename(fields, "old", "new");
        let renamed = upcast(rename, json!({ "old": null }));
        assert_eq!(renamed, Ok(json!({ "old": null, "new": null })));
        assert_eq!(upcast(rename, json!({})), Ok(json!({})));
        let repeated = upcast(rename, json!({ "old": 1, "new": 1 }));
        assert_eq!(repeated, Ok(json!({ "old": 1, "new": 1 })));
        let refused = upcast(rename, json!({ "old": 1, "new": 2 }));
        assert!(refused.is_err_and(|error| error.contains("another `new`")));
    }

    #[test]
    fn a_text_is_split_at_its_first_separator() {
        let split = |fields: &mut Map<_, _>| split(fields, "name", ", ", ["last", "first"]);
        for (name, last, first) in [
            ("Byron, Ada, Countess", "Byron", "Ada, Countess"),
            ("Ada", "Ada", ""),
            ("", "", ""),
        ] {
            let expected = json!({ "name": name, "last": last, "first": first });
            assert_eq!(upcast(split, json!({ "name": name })), Ok(expected));
        }
        for unreadable in [json!({}), json!({ "name": 7 })] {
            let refused = upcast(split, unreadable);
            assert!(refused.is_err_and(|error| error.contains("no text `name`")));
        }
    }
}
