//! Levels are numbered from 1 without a gap.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key(1))]
    customer: String,
    #[document(partition_key(3))]
    country: String,
    number: u64,
}
