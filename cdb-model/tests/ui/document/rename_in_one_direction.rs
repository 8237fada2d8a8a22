//! A filter uses one stored name.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[serde(rename(serialize = "total", deserialize = "sum"))]
    total: u64,
}
