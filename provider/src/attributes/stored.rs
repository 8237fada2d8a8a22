//! The stored form of search attributes: a JSON object under one key of the key-value store, and
//! the same object in the instance document.

use std::collections::BTreeMap;

use duroxide::{Event, EventKind};
use serde_json::Value;

use super::derived::Values;
use super::limits::{AttributesError, MAX_ATTRIBUTES, check, check_size};
use crate::kv::KvState;

/// The key of the key-value store.
pub(super) const KEY: &str = "cdb:search-attributes";

/// Attributes by name, in the order of names: replay compares the text of a value.
pub type Attributes = BTreeMap<String, Value>;

/// Returns the text to store. Values that are `None` are left out.
pub(super) fn to_text(values: Values) -> Result<String, AttributesError> {
    let mut attributes = Attributes::new();
    for (name, value) in values {
        if let Some(value) = value {
            check(name, &value)?;
            attributes.insert(name.to_owned(), value);
        }
    }
    let text = serde_json::to_string(&attributes)
        .map_err(|error| AttributesError::Stored(error.to_string()))?;
    check_size(&text)?;
    Ok(text)
}

/// Reads a stored text.
pub(super) fn from_text(text: &str) -> Result<Attributes, AttributesError> {
    check_size(text)?;
    serde_json::from_str(text).map_err(|error| AttributesError::Stored(error.to_string()))
}

/// Returns the attributes that a commit writes into the instance document: those of the key-value
/// store after the events of the turn. Leaves invalid ones out, which only a program without
/// [`SearchAttributes`](super::SearchAttributes) writes, and logs them when this turn has set them.
pub(crate) fn at_commit(instance: &str, kv: &KvState, events: &[Event]) -> Attributes {
    let Some(text) = kv.value_after(KEY, events) else {
        return Attributes::new();
    };
    let (attributes, refused) = valid(text);
    if events.iter().any(sets_attributes) {
        for error in refused {
            tracing::warn!(instance, %error, "a search attribute is left out");
        }
    }
    attributes
}

fn sets_attributes(event: &Event) -> bool {
    matches!(&event.kind, EventKind::KeyValueSet { key, .. } if key == KEY)
}

/// Returns the valid attributes of a stored text, and the errors of the others.
fn valid(text: &str) -> (Attributes, Vec<AttributesError>) {
    let mut attributes = match from_text(text) {
        Ok(attributes) => attributes,
        Err(error) => return (Attributes::new(), vec![error]),
    };
    let mut refused = Vec::new();
    attributes.retain(|name, value| {
        check(name, value)
            .map_err(|error| refused.push(error))
            .is_ok()
    });
    let more = attributes.keys().nth(MAX_ATTRIBUTES).cloned();
    if let Some(name) = more {
        let extra = attributes.split_off(&name).len();
        let text = format!("{extra} more than {MAX_ATTRIBUTES}, from `{name}` on");
        refused.push(AttributesError::Stored(text));
    }
    (attributes, refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_stored_values_are_left_out_and_reported() {
        let long = "x".repeat(257);
        let text = format!(
            r#"{{"a":"x","b":true,"c":1.5,"d":null,"e":[1],"f":{{}},"g":"{long}","h":9007199254740993}}"#
        );
        let (attributes, refused) = valid(&text);
        assert_eq!(attributes.into_keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(refused.len(), 5);
        for text in [
            "[]",
            "",
            "{",
            "7",
            &format!(r#"{{"a":"{}"}}"#, "x".repeat(4096)),
        ] {
            let (attributes, refused) = valid(text);
            assert!(attributes.is_empty() && refused.len() == 1, "{text}");
        }
        let many: Attributes = (0..20).map(|n| (format!("a{n:02}"), n.into())).collect();
        let (attributes, refused) = valid(&serde_json::to_string(&many).unwrap());
        assert_eq!(attributes.len(), 16);
        assert!(
            refused[0]
                .to_string()
                .ends_with("4 more than 16, from `a16` on")
        );
    }
}
