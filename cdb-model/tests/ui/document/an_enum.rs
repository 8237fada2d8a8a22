//! Paths are made of named fields.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "order")]
enum Order {
    Open,
    Closed,
}
