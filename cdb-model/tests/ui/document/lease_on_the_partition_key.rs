//! A lease changes, but a partition key does not.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key, lease)]
    customer: String,
    number: u64,
}
