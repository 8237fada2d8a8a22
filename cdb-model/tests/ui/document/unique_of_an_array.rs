//! The service compares single values.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
#[document(unique(tags))]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    tags: Vec<String>,
}
