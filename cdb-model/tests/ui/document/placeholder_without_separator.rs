//! A value ends at a separator, so that ids can be parsed and patterns compared.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}-{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}
