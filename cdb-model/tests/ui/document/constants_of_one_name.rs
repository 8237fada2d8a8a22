//! Paths become constants with upper-case names.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(index(city: String))]
    address: Address,
    address_city: String,
}

#[derive(Serialize, Deserialize)]
struct Address {
    city: String,
}
