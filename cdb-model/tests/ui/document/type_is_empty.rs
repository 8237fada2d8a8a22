//! An empty type cannot be distinguished from a missing one.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}
