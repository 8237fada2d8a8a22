//! Every stored path is known to the derive, unique, and legal as a path of the service.
#![allow(unreachable_patterns)] // what serde says of the same stored name

include!("../declaration.rs");

/// The service adds properties to every document, and the model stores the discriminator.
#[derive(Document, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind")]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    // A filter uses one stored name.
    #[serde(rename(serialize = "total", deserialize = "sum"))]
    total: u64,
    // A filter would miss documents with the other name, and a patch would add a second one.
    #[serde(alias = "count")]
    pieces: u64,
    // Two fields with the same stored name overwrite each other.
    #[serde(rename = "createdAt")]
    created: u64,
    #[serde(rename = "createdAt")]
    created_at: u64,
    // The pattern generates the id.
    id: String,
    // The service sets this property.
    _etag: String,
    // A slash in a name cannot be distinguished from a step of a path.
    #[serde(rename = "net/gross")]
    net: u64,
    // The path `/*` would include the whole document in the index.
    #[serde(rename = "*")]
    #[document(index)]
    gross: u64,
    // Filters and patches serialize a value by its type.
    #[serde(with = "text")]
    #[document(index)]
    tax: u64,
    // A property that is not stored cannot be found.
    #[document(index)]
    #[serde(skip_serializing)]
    status: String,
    // Paths become constants with upper-case names.
    #[document(index(city: String))]
    address: Address,
    address_city: String,
}

#[derive(Serialize, Deserialize)]
struct Address {
    city: String,
}

/// A field that is never read is written all the same, so its name counts. The stored paths of
/// flattened fields are unknown to the derive.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}")]
struct OnlyWritten {
    #[document(partition_key)]
    customer: String,
    #[serde(skip_deserializing)]
    id: String,
    #[serde(flatten)]
    rest: Address,
}

mod text {
    pub fn serialize<S: serde::Serializer>(total: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&total.to_string())
    }
    pub fn deserialize<'de, D: serde::Deserializer<'de>>(_: D) -> Result<u64, D::Error> {
        Ok(0)
    }
}
