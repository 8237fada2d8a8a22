//! Two types with the same discriminator cannot be distinguished.

include!("../order.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:refund:{number}")]
struct Refund {
    #[document(partition_key)]
    customer: String,
    number: u64,
}

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Shop {
    Order(Order),
    Refund(Refund),
}
