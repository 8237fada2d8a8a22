//! The rules are those of serde.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[serde(rename_all = "camel")]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}
