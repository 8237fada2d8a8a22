//! One compilation reports all conflicts, each at its variant.

include!("../order.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:order:{type}")]
struct Refund {
    #[document(partition_key)]
    customer: String,
    r#type: String,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "country", id = "country:{country}")]
struct Country {
    #[document(partition_key)]
    country: String,
}

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Shop {
    Order(Order),
    Refund(Refund),
    Country(Country),
}
