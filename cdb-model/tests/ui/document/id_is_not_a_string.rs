//! The pattern contains literals and placeholders, so it is a string.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = customer)]
struct Order {
    #[document(partition_key)]
    customer: String,
}
