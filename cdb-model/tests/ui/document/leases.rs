//! A document has one lease, which is always stored, in a field of its own with the derive's index.

include!("../declaration.rs");

/// A lease changes, but a partition key does not. The two holders of one document would not exclude
/// each other.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct InTheKey {
    #[document(partition_key, lease)]
    customer: String,
    number: u64,
    #[document(lease)]
    lease: Lease,
}

/// A lease changes, but an id does not.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct InTheId {
    #[document(partition_key)]
    customer: String,
    #[document(lease)]
    number: u64,
}

/// Other processes have to read the lease.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}")]
struct Skipped {
    #[document(partition_key)]
    customer: String,
    #[document(lease)]
    #[serde(skip)]
    lease: Lease,
}

/// A token that is not stored starts at one again, so two holders could have the same token.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}")]
struct SometimesSkipped {
    #[document(partition_key)]
    customer: String,
    #[document(lease)]
    #[serde(skip_serializing_if = "is_free")]
    lease: Lease,
}

/// The derive chooses the index of a lease.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}")]
struct Unindexed {
    #[document(partition_key)]
    customer: String,
    #[document(lease, unindexed)]
    lease: Lease,
}
