//! A document that is not deleted has no time of deletion.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(soft_delete)]
    deleted_at: Timestamp,
}
