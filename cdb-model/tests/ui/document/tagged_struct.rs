//! The model stores the discriminator.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[serde(tag = "kind")]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
}
