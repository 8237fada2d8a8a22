//! Every query filters by the time of a soft deletion.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(soft_delete, unindexed)]
    deleted_at: Option<Timestamp>,
}
