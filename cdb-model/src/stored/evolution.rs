//! Versions of document types: older documents are upgraded when they are read, and the fields of
//! newer ones survive a write.
//!
//! The version is the property `schemaVersion`. A document without it has version 1. Upcasts work on
//! JSON, because no Rust type describes the former versions any more.

use std::borrow::Cow;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::document::MARK;
use crate::shape::DocumentShape;

/// The property that contains the version of a document.
const VERSION: &str = "schemaVersion";

/// The properties that the service adds to each document, the id, and the mark of the last write,
/// which is not that of the next.
pub(crate) const SERVICE_PROPERTIES: [&str; 8] = [
    "id",
    MARK,
    "_rid",
    "_self",
    "_etag",
    "_ts",
    "_attachments",
    "_lsn",
];

/// The fields of a document that its type does not have, because a newer version of the program has
/// written them. They survive when the document is written again, and so does its version.
///
/// ```
/// use cdb_model::Document;
/// use cdb_model::stored::UnknownFields;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Document, Serialize, Deserialize)]
/// #[document(type = "customer", id = "{name}", version = 1)]
/// struct Customer {
///     #[document(partition_key)]
///     name: String,
///     #[serde(flatten)]
///     #[document(unknown)]
///     newer: UnknownFields,
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct UnknownFields(Map<String, Value>);

impl UnknownFields {
    /// Returns the fields. Contains the version and the discriminator of a document that was read.
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }
}

impl<'de> Deserialize<'de> for UnknownFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::deserialize(deserializer)?;
        fields.retain(|name, _| !SERVICE_PROPERTIES.contains(&&**name));
        Ok(Self(fields))
    }
}

/// Returns the JSON of a document in the version of its type, if the document is older; unchanged
/// otherwise.
pub(crate) fn upgraded<'a>(
    shape: &DocumentShape,
    json: &'a str,
) -> serde_json::Result<Cow<'a, str>> {
    let Some(version) = shape.version else {
        return Ok(Cow::Borrowed(json));
    };
    let stored = version_of(json)?;
    if stored >= version {
        return Ok(Cow::Borrowed(json));
    }
    let mut fields: Map<String, Value> = serde_json::from_str(json)?;
    let passed = usize::try_from(stored.saturating_sub(1)).unwrap_or(usize::MAX);
    for (from, upcast) in (stored..).zip(shape.upcasts.iter().skip(passed)) {
        upcast(&mut fields).map_err(|error| {
            serde::de::Error::custom(format!(
                "the upcast of `{}` from version {from} failed: {error}",
                shape.name
            ))
        })?;
    }
    fields.insert(VERSION.to_owned(), version.into());
    serde_json::to_string(&fields).map(Cow::Owned)
}

/// Returns the fields of a document as they are stored: with its version, and without properties
/// that are stored apart.
pub(crate) fn with_version(
    shape: &DocumentShape,
    fields: String,
    discriminator: &str,
) -> serde_json::Result<String> {
    let Some(version) = shape.version else {
        return Ok(fields);
    };
    let mut fields: Map<String, Value> = serde_json::from_str(&fields)?;
    fields.remove(discriminator);
    fields
        .entry(VERSION)
        .or_insert_with(|| Value::from(version));
    serde_json::to_string(&fields)
}

/// Returns the version of a stored document.
fn version_of(json: &str) -> serde_json::Result<u32> {
    serde_json::Deserializer::from_str(json).deserialize_map(VersionVisitor)
}

struct VersionVisitor;

impl<'de> Visitor<'de> for VersionVisitor {
    type Value = u32;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a stored document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u32, A::Error> {
        let mut version = 1;
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            if name == VERSION {
                version = map.next_value()?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(version)
    }
}
