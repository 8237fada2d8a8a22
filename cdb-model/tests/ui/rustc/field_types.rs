//! A field has a type that its setting can store.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{number}")]
struct Order {
    // The service partitions by strings.
    #[document(partition_key)]
    customer: u64,
    // A value in an id needs a text form.
    number: Vec<u8>,
    // A lease has its own stored form.
    #[document(lease)]
    lease: Option<String>,
    // A time to live is a number of seconds.
    #[document(ttl)]
    ttl: String,
    // A document that is not deleted has no time of deletion.
    #[document(soft_delete)]
    deleted_at: Timestamp,
    // A document has no time of creation until it is written.
    #[document(created_at)]
    created_at: Timestamp,
    // Only texts have words.
    #[document(full_text)]
    body: u64,
    // A vector is stored as an array of numbers.
    #[document(vector(dimensions = 3))]
    meaning: String,
}

/// A partition key consists of the fields of its struct.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "invoice", id = "invoice")]
struct Invoice {
    #[serde(flatten)]
    #[document(partition_key)]
    place: Place,
}

#[derive(Serialize, Deserialize)]
struct Place {
    country: String,
}

/// The service partitions by strings.
#[derive(PartitionKeyFields)]
struct Level {
    customer: u64,
}
