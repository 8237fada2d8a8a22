//! The pattern generates the id.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:order")]
struct Order {
    #[document(partition_key)]
    customer: String,
    id: String,
}
