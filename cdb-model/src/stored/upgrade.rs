//! Upgrades stored documents to the version of their type, for migrations.

use std::borrow::Cow;

use serde::de::Error as _;
use serde_json::{Map, Value};

use super::codec::SystemProperties;
use super::evolution::{SERVICE_PROPERTIES, upgraded};
use super::unreadable::Location;
use crate::container::Container;
use crate::document::DecodeError;

/// A document in the version of its type, and where it is stored in an older one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Upgraded {
    /// Where it is stored, and in which version it was read.
    pub location: Location,
    /// The document, without the properties of the service.
    pub json: String,
}

/// Upgrades a stored document of container `C`. Returns `None` if it is in the version of its type or
/// a newer one, or if its type has no versions or is unknown.
///
/// # Errors
/// [`DecodeError::Malformed`] when an upcast fails, when it changes the id or the partition key, or
/// when its result does not match the type.
pub fn upgrade<C: Container>(json: &str) -> Result<Option<Upgraded>, DecodeError> {
    let system = SystemProperties::read::<C>(json, C::NAME)?;
    let mut types = C::DOCUMENTS.iter();
    let Some(shape) = types.find(|shape| shape.discriminator == system.discriminator) else {
        return Ok(None);
    };
    let failed = |reason| DecodeError::Malformed {
        document: shape.name,
        id: system.id.clone(),
        reason,
    };
    let Cow::Owned(upgraded) = upgraded(shape, json).map_err(failed)? else {
        return Ok(None);
    };
    let (Some(before), Some(after)) = (Location::read::<C>(json), Location::read::<C>(&upgraded))
    else {
        return Err(failed(serde_json::Error::custom(
            "it has no id or no partition key",
        )));
    };
    if before != after {
        let text = "an upcast has changed its id or partition key";
        return Err(failed(serde_json::Error::custom(text)));
    }
    C::decode(shape.discriminator, &upgraded).map_err(|error| error.of_item(&system.id))?;
    let mut fields: Map<String, Value> = serde_json::from_str(&upgraded).map_err(failed)?;
    fields.retain(|name, _| name == "id" || !SERVICE_PROPERTIES.contains(&&**name));
    Ok(Some(Upgraded {
        location: before,
        json: serde_json::to_string(&fields).map_err(failed)?,
    }))
}
