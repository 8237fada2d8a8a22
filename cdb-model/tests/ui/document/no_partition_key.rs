//! The service distributes documents by partition key.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    customer: String,
    number: u64,
}
