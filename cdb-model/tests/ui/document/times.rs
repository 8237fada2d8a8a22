//! Fields with a time have the stored name, form and index that the service or the model needs.

include!("../declaration.rs");

/// The service deletes documents by the property `ttl`.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}")]
struct Accident {
    #[document(partition_key)]
    customer: String,
    ttl: u32,
}

/// The service reads the time to live from one property only.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}")]
struct AnotherName {
    #[document(partition_key)]
    customer: String,
    #[document(ttl)]
    lifetime: u32,
}

/// The service refuses a time to live that is null.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}")]
struct Null {
    #[document(partition_key)]
    customer: String,
    #[document(ttl)]
    ttl: Option<u32>,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    // Every query filters by the time of a soft deletion.
    #[document(soft_delete, unindexed)]
    cancelled_at: Option<Timestamp>,
    // A document is deleted once, and the times of its writes have fields of their own.
    #[document(updated_at, soft_delete)]
    deleted_at: Option<Timestamp>,
    // A document has one time of creation.
    #[document(created_at)]
    created_at: Option<Timestamp>,
    #[document(created_at)]
    placed_at: Option<Timestamp>,
}
