//! Two values without a separator cannot be parsed.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}
