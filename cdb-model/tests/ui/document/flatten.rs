//! The stored paths of flattened fields are unknown to the derive.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[serde(flatten)]
    rest: Rest,
}

#[derive(Serialize, Deserialize)]
struct Rest {
    a: String,
}
