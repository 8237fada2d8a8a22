//! Two documents of one partition need different ids.

include!("../order.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "refund", id = "{customer}:order:{reason}")]
struct Refund {
    #[document(partition_key)]
    customer: String,
    reason: String,
}

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Shop {
    Order(Order),
    Refund(Refund),
}
