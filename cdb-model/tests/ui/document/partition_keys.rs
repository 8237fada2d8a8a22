//! A partition key is stored, always has a value, and has one to three numbered levels.

include!("../declaration.rs");

/// No key names the partition of documents without a partition key value.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "order")]
struct Optional {
    #[document(partition_key)]
    customer: Option<String>,
}

/// Levels are numbered from 1 without a gap.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "order")]
struct Gap {
    #[document(partition_key(1))]
    customer: String,
    #[document(partition_key(3))]
    country: String,
}

/// Each level has one field.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "order")]
struct LevelTwice {
    #[document(partition_key(1))]
    customer: String,
    #[document(partition_key(1))]
    country: String,
}

/// The service supports three levels.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "order")]
struct LevelUnknown {
    #[document(partition_key(4))]
    customer: String,
}

/// Two marks without levels have no order.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "order")]
struct Two {
    #[document(partition_key)]
    customer: String,
    #[document(partition_key)]
    country: String,
}

/// A document without the property would be in another partition than its key.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "order")]
struct SometimesSkipped {
    #[document(partition_key)]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    customer: String,
}

/// The service allows letters, digits and `_` in the path of a key.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "order", unique(number))]
struct Special {
    #[document(partition_key)]
    #[serde(rename = "customer-id")]
    customer: String,
    #[serde(rename = "order number")]
    number: u64,
}

/// The service reads the partition key from the document.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "order")]
struct Skipped {
    #[document(partition_key)]
    #[serde(skip)]
    customer: String,
}

/// A flattened partition key has all levels, and an id does not need it.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{place}:{number}")]
struct Flattened {
    #[serde(flatten)]
    #[document(partition_key(1))]
    place: Place,
    number: u64,
}

/// The setting belongs to the documents; the service supports three levels.
#[derive(PartitionKeyFields, Serialize, Deserialize)]
struct Place {
    #[document(index)]
    country: String,
    city: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    street: String,
    #[serde(rename = "house-number")]
    number: u32,
}

/// The service and the model know these properties.
#[derive(PartitionKeyFields, Serialize, Deserialize)]
struct Meaning {
    ttl: u32,
    #[serde(rename = "schemaVersion")]
    version: u32,
}

/// The derive does not know which fields `T` has.
#[derive(PartitionKeyFields, Serialize, Deserialize)]
struct Generic<T> {
    country: T,
}

/// Paths are made of named fields.
#[derive(PartitionKeyFields, Serialize, Deserialize)]
struct Tuple(String);
