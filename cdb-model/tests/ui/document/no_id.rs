//! Every document has an id, and only its author knows which fields make it unique.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order")]
struct Order {
    #[document(partition_key)]
    customer: String,
}
