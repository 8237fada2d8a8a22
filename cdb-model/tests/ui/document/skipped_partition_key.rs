//! The service reads the partition key from the document.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    #[serde(skip)]
    customer: String,
    number: u64,
}
