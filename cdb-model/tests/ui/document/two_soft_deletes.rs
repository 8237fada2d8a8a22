//! A document is deleted once.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(soft_delete)]
    cancelled_at: Option<Timestamp>,
    #[document(soft_delete)]
    deleted_at: Option<Timestamp>,
}
