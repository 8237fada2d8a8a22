//! A composite does not replace the index of its paths.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
#[document(composite(BY_STATUS = status, total))]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    status: String,
    #[document(index)]
    total: u64,
}
