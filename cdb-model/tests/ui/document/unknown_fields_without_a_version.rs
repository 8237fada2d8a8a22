//! A document is newer than the type only if both have versions.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    #[serde(flatten)]
    #[document(unknown)]
    newer: UnknownFields,
}
