//! The service refuses ids with a slash.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "orders/{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}
