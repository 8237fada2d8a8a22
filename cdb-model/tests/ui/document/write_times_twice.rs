//! A document has one time of creation and one of the last write, in fields of their own.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(created_at)]
    created_at: Option<Timestamp>,
    #[document(created_at)]
    placed_at: Option<Timestamp>,
    #[document(updated_at, soft_delete)]
    deleted_at: Option<Timestamp>,
}
