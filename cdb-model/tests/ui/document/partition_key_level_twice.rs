//! Each level has one field.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key(1))]
    customer: String,
    #[document(partition_key(1))]
    country: String,
    number: u64,
}
