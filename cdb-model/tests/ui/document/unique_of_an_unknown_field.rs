//! A unique key consists of fields.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
#[document(unique(emial))]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    email: String,
}
