//! A token that is not stored starts at one again, so two holders could have the same token.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(lease)]
    #[serde(skip_serializing_if = "is_free")]
    lease: Lease,
}
