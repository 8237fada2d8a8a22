//! A placeholder is a field.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{custmer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}
