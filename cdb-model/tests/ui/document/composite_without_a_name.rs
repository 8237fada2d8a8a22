//! A composite becomes a constant, which needs a name.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
#[document(composite(r#type, total))]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(index)]
    total: u64,
}
