//! The service adds properties to every document.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}
