//! A document is stored as JSON, which serde writes and reads.

include!("../declaration.rs");

#[derive(Document)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}

#[derive(Container)]
enum Shop {
    Order(Order),
}
