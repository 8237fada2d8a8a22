//! A repeated path never affects the order.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
#[document(composite(BY_TOTAL = total, total desc))]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(index)]
    total: u64,
}
