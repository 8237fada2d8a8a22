// A container that is correct, for cases that extend it, index it or write to it.

include!("imports.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "order:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    status: String,
    #[document(index(city: String))]
    address: Address,
    #[document(ttl)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl: Option<u32>,
}

#[derive(Serialize, Deserialize)]
struct Address {
    city: String,
}

#[derive(Container)]
enum Shop {
    Order(Order),
}
