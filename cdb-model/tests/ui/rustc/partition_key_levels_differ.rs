//! All documents of a container have partition keys with the same levels.

include!("../order.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "refund", id = "{customer}:refund")]
struct Refund {
    #[document(partition_key(1))]
    customer: String,
    #[document(partition_key(2))]
    country: String,
}

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Shop {
    Order(Order),
    Refund(Refund),
}
