//! Paths inside a field are given in parentheses, with their types.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    #[document(index = "city")]
    address: String,
    number: u64,
}
