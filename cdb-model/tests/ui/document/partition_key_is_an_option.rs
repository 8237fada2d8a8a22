//! No key names the partition of documents without a partition key value.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "order:{number}")]
struct Order {
    #[document(partition_key)]
    customer: Option<String>,
    number: u64,
}
