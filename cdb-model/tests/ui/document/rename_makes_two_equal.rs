//! Two fields with the same stored name overwrite each other.

#![allow(unreachable_patterns)] // what serde says of the same mistake

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[serde(rename = "createdAt")]
    created: u64,
    created_at: u64,
}
