//! A property that is not stored cannot be found.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(index)]
    #[serde(skip_serializing)]
    status: String,
}
