//! A container has its partition key at one path.

include!("../order.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "refund", id = "{refund}:refund")]
struct Refund {
    #[document(partition_key)]
    #[serde(rename = "refundId")]
    refund: String,
}

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Shop {
    Order(Order),
    Refund(Refund),
}
