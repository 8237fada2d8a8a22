//! A discriminator and a policy belong to one type.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}")]
struct Order<T> {
    #[document(partition_key)]
    customer: String,
    payload: T,
}
