//! Encodes documents as stored JSON, and decodes them.
//!
//! The stored form is `id`, the discriminator, the mark of a marked write, and the document's own fields. The document is
//! serialized once, and the two properties are inserted before it as text: serde's `flatten` would
//! buffer every value and lose `RawValue`s, and an intermediate `serde_json::Value` would cost a
//! tree per document.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::evolution::{upgraded, with_version};
use super::write_times::{TimeSlots, with_times};
use crate::container::{Container, MemberOf};
use crate::document::{
    DecodeError, Document, DocumentKey, ETag, EncodeError, MARK, Stored, WriteMark,
};
use crate::limits::{MAX_DOCUMENT_BYTES, MAX_TTL_SECONDS};
use crate::value::{ItemId, Timestamp};

/// A document in its stored form.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Encoded {
    /// The id inside `json`.
    pub id: ItemId,
    /// The whole document.
    pub json: Box<RawValue>,
    /// Where the time of the write is inside `json`.
    pub(crate) times: TimeSlots,
}

/// Encodes `document` in the form that container `C` stores. `now` is the time of the write, for the
/// fields `#[document(created_at)]` and `#[document(updated_at)]`.
///
/// # Errors
/// When the document cannot be serialized, or exceeds a limit of the service; see [`EncodeError`].
pub fn encode<C: Container, D: MemberOf<C>>(
    document: &D,
    now: Timestamp,
) -> Result<Encoded, EncodeError> {
    Encoded::new::<C, D>(
        document.key().to_id()?,
        document.encode_fields()?,
        None,
        now,
    )
}

fn unserializable(document: &'static str, reason: String) -> EncodeError {
    EncodeError::Serialize { document, reason }
}

impl Encoded {
    /// Completes the fields of a document to the form that container `C` stores.
    pub(crate) fn new<C: Container, D: MemberOf<C>>(
        id: ItemId,
        fields: String,
        mark: Option<&WriteMark>,
        now: Timestamp,
    ) -> Result<Self, EncodeError> {
        let (shape, property) = (D::SHAPE, C::DISCRIMINATOR);
        let failed = |reason: String| unserializable(shape.name, reason);
        let (own, times) = with_version(shape, fields, property)
            .and_then(|own| with_times(shape, own, now))
            .map_err(|error| failed(error.to_string()))?;
        let fields = own
            .strip_prefix('{')
            .ok_or_else(|| failed("its Serialize writes another form".to_owned()))?;
        if shape.ttl.is_some()
            && let Some(seconds) = ttl_of(&own).filter(|seconds| !is_ttl(*seconds))
        {
            let document = shape.name;
            return Err(EncodeError::TimeToLive {
                document,
                id,
                seconds,
            });
        }
        let mut json = String::with_capacity(own.len() + id.as_str().len() + 80);
        json.push('{');
        push_property(&mut json, "id", id.as_str()).map_err(|error| failed(error.to_string()))?;
        json.push(',');
        push_property(&mut json, property, shape.discriminator)
            .map_err(|error| failed(error.to_string()))?;
        if let Some(mark) = mark {
            json.push(',');
            push_property(&mut json, MARK, mark.as_str())
                .map_err(|error| failed(error.to_string()))?;
        }
        if fields != "}" {
            json.push(',');
        }
        json.push_str(fields);
        if json.len() > MAX_DOCUMENT_BYTES {
            return Err(EncodeError::TooLarge {
                document: shape.name,
                id,
                length: json.len(),
            });
        }
        let json = RawValue::from_string(json).map_err(|error| failed(error.to_string()))?;
        Ok(Self { id, json, times })
    }
}

/// Whether the service accepts a time to live.
pub(crate) fn is_ttl(seconds: i64) -> bool {
    seconds == -1 || (1..=MAX_TTL_SECONDS).contains(&seconds)
}

/// Returns the time to live in the JSON of a document.
fn ttl_of(json: &str) -> Option<i64> {
    #[derive(Deserialize)]
    struct Lifetime {
        ttl: Option<i64>,
    }
    let lifetime = serde_json::from_str(json);
    lifetime.ok().and_then(|lifetime: Lifetime| lifetime.ttl)
}

fn push_property(json: &mut String, name: &str, value: &str) -> serde_json::Result<()> {
    json.push_str(&serde_json::to_string(name)?);
    json.push(':');
    json.push_str(&serde_json::to_string(value)?);
    Ok(())
}

/// Decodes a stored document of type `D` from container `C`.
///
/// # Errors
/// [`DecodeError::WrongType`] for another type, [`DecodeError::Malformed`] when the JSON does not
/// match the type.
pub fn decode<C: Container, D: MemberOf<C>>(json: &str) -> Result<Stored<D>, DecodeError> {
    let system = SystemProperties::read::<C>(json, D::SHAPE.name)?;
    if system.discriminator != D::SHAPE.discriminator {
        return Err(DecodeError::WrongType {
            expected: D::SHAPE.discriminator,
            found: system.discriminator,
            id: system.id,
        });
    }
    let document = decode_fields(json).map_err(|error| error.of_item(&system.id))?;
    Ok(system.around(document))
}

/// Decodes a stored document of any type of container `C`.
///
/// # Errors
/// [`DecodeError::UnknownType`] for a foreign document, [`DecodeError::Malformed`] when the JSON
/// does not match the type.
pub fn decode_any<C: Container>(json: &str) -> Result<Stored<C>, DecodeError> {
    let system = SystemProperties::read::<C>(json, C::NAME)?;
    let document = C::decode(&system.discriminator, json);
    let document = document.map_err(|error| error.of_item(&system.id))?;
    Ok(system.around(document))
}

/// For generated code: decodes the document's own fields, and ignores all other properties.
///
/// # Errors
/// [`DecodeError::Malformed`] when the JSON does not match `D`.
pub fn decode_fields<D: Document>(json: &str) -> Result<D, DecodeError> {
    upgraded(D::SHAPE, json)
        .and_then(|json| D::field_codec().read(&json))
        .map_err(|reason| malformed(D::SHAPE.name, reason))
}

/// Decodes a value that a query projected.
pub(crate) fn decode_value<V: serde::de::DeserializeOwned>(
    what: &'static str,
    json: &str,
) -> Result<V, DecodeError> {
    serde_json::from_str(json).map_err(|reason| malformed(what, reason))
}

fn malformed(document: &'static str, reason: serde_json::Error) -> DecodeError {
    DecodeError::Malformed {
        document,
        id: String::new(),
        reason,
    }
}

pub(crate) struct SystemProperties {
    pub(crate) id: String,
    pub(crate) etag: String,
    timestamp: u64,
    pub(crate) discriminator: String,
}

impl SystemProperties {
    /// Reads them of a document of container `C`.
    pub(crate) fn read<C: Container>(
        json: &str,
        document: &'static str,
    ) -> Result<Self, DecodeError> {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let visitor = SystemVisitor {
            property: C::DISCRIMINATOR,
        };
        deserializer
            .deserialize_map(visitor)
            .map_err(|reason| DecodeError::Malformed {
                document,
                id: String::new(),
                reason,
            })
    }

    fn around<T>(self, document: T) -> Stored<T> {
        Stored {
            id: ItemId::from_stored(self.id),
            document,
            etag: ETag::new(self.etag),
            timestamp: Timestamp::from_secs(self.timestamp),
        }
    }
}

struct SystemVisitor {
    property: &'static str,
}

impl<'de> Visitor<'de> for SystemVisitor {
    type Value = SystemProperties;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a stored document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = SystemProperties {
            id: String::new(),
            etag: String::new(),
            timestamp: 0,
            discriminator: String::new(),
        };
        while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            match &*name {
                "id" => found.id = map.next_value()?,
                "_etag" => found.etag = map.next_value()?,
                "_ts" => found.timestamp = map.next_value()?,
                name if name == self.property => found.discriminator = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}
