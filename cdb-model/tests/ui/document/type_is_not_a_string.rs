//! The type is stored as a string.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = 7, id = "{customer}")]
struct Order {
    #[document(partition_key)]
    customer: String,
}
