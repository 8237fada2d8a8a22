//! The type distinguishes the documents of a container.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(id = "{customer}")]
struct Order {
    #[document(partition_key)]
    customer: String,
}
