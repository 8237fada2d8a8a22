//! Indexing is declared at the field.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
#[document(index)]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}
