//! A time to live has no effect if the container disables expiry.

include!("../order.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "refund", id = "{customer}:refund")]
struct Refund {
    #[document(partition_key)]
    customer: String,
    #[document(ttl)]
    ttl: u32,
}

#[derive(Container)]
#[container(partition_key = "/customer", default_ttl = "off")]
enum Shop {
    Order(Order),
    Refund(Refund),
}
