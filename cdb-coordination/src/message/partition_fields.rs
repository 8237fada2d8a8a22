//! The partition key of a document type that fits every container, stored in the fields that the
//! container uses.

use std::fmt;
use std::marker::PhantomData;

use cdb_model::value::PartitionKeyValue;
use cdb_model::{Container, PartitionKey, PartitionKeyFields};
use derive_where::derive_where;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

/// The partition key of a document in container `C`. Serialized as the fields of the key, flattened
/// into the document.
#[derive_where(Clone, Debug)]
pub(crate) struct PartitionFields<C> {
    key: PartitionKey,
    marker: PhantomData<fn() -> C>,
}

impl<C> PartitionFields<C> {
    pub(crate) fn new(key: PartitionKey) -> Self {
        Self {
            key,
            marker: PhantomData,
        }
    }

    pub(crate) fn key(&self) -> &PartitionKey {
        &self.key
    }
}

impl<C: Container> PartitionKeyFields for PartitionFields<C> {
    const PATHS: &'static [&'static str] = C::PARTITION_KEY;

    fn to_partition_key(&self) -> PartitionKey {
        self.key.clone()
    }
}

/// The field names of the key. The derives put key fields at the top level of a document, so a path
/// has one segment.
fn properties<C: Container>() -> impl Iterator<Item = &'static str> {
    C::PARTITION_KEY
        .iter()
        .map(|path| path.trim_start_matches('/'))
}

impl<C: Container> Serialize for PartitionFields<C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(C::PARTITION_KEY.len()))?;
        for (property, value) in properties::<C>().zip(self.key.values()) {
            map.serialize_entry(property, value)?;
        }
        map.end()
    }
}

impl<'de, C: Container> Deserialize<'de> for PartitionFields<C> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PartitionVisitor(PhantomData))
    }
}

struct PartitionVisitor<C>(PhantomData<fn() -> C>);

impl<'de, C: Container> Visitor<'de> for PartitionVisitor<C> {
    type Value = PartitionFields<C>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document with its partition key")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PartitionFields<C>, A::Error> {
        let mut found: Vec<Option<PartitionKeyValue>> = vec![None; C::PARTITION_KEY.len()];
        while let Some(name) = map.next_key::<String>()? {
            match properties::<C>().position(|property| property == name) {
                Some(level) => found[level] = Some(map.next_value()?),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let values: Option<Vec<PartitionKeyValue>> = found.into_iter().collect();
        let values = values.ok_or_else(|| A::Error::custom("the partition key is incomplete"))?;
        Ok(PartitionFields::new(PartitionKey::from_values(values)))
    }
}
