//! A document without the property would be in another partition than its key.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    customer: String,
    number: u64,
}
