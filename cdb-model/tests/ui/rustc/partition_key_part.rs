//! The service partitions by strings, numbers and booleans.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "order")]
struct Order {
    #[document(partition_key)]
    customer: u64,
}
