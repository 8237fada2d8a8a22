//! The model stores the discriminator.

include!("../order.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "refund", id = "{customer}:refund")]
struct Refund {
    #[document(partition_key)]
    customer: String,
    kind: String,
}

#[derive(Container)]
#[container(partition_key = "/customer", discriminator = "kind")]
enum Shop {
    Order(Order),
    Refund(Refund),
}
