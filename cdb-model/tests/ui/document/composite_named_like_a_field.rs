//! Composites and fields become constants of the same struct.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
#[document(composite(TOTAL = r#type, total))]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(index)]
    total: u64,
}
