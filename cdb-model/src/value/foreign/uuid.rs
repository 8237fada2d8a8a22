//! `Uuid`: its serde form, lower-case with hyphens, has the order of its bytes.

use uuid::Uuid;

use crate::value::id::IdPart;
use crate::value::partition_key::{PartitionKeyPart, PartitionKeyValue};
use crate::value::scalar::{Ordered, Scalar};

impl Scalar for Uuid {}

impl Ordered for Uuid {
    type Value = Self;
}

impl IdPart for Uuid {
    fn to_id_part(&self) -> String {
        self.to_string()
    }

    fn from_id_part(text: &str) -> Result<Self, String> {
        Self::try_parse(text).map_err(|_| format!("`{text}` is not a UUID"))
    }
}

impl PartitionKeyPart for Uuid {
    fn to_partition_key_value(&self) -> PartitionKeyValue {
        PartitionKeyValue::String(self.to_string())
    }
}
