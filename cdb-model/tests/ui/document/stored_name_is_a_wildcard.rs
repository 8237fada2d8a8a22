//! The path `/*` would include the whole document in the index.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[serde(rename = "*")]
    #[document(index)]
    total: u64,
}
