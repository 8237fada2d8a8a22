//! `paths` lists paths inside a field.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    #[document(paths)]
    address: Vec<String>,
    #[document(paths(lines[].sku: String))]
    cart: Vec<String>,
}
