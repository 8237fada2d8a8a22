//! The two holders of one document would not exclude each other.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(lease)]
    packing: Lease,
    #[document(lease)]
    billing: Lease,
}
