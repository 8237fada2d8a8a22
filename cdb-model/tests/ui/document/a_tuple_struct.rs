//! Paths are made of named fields.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "order")]
struct Order(String);
