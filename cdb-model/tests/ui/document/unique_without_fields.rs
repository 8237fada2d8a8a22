//! A unique key without fields would allow one document per partition.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
#[document(unique())]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}
