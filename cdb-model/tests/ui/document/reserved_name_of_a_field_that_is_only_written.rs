//! A field that is never read is written all the same, so its name counts.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:order")]
struct Order {
    #[document(partition_key)]
    customer: String,
    #[serde(skip_deserializing)]
    id: String,
}
