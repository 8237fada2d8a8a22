//! The derive does not see the types inside a field.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(index(city))]
    address: Address,
}

#[derive(Serialize, Deserialize)]
struct Address {
    city: String,
}
