//! The types of an extension are compared with the inherited types.

include!("../shop.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:refund:{number}")]
struct Refund {
    #[document(partition_key)]
    customer: String,
    number: u64,
}

#[derive(Container)]
enum Larger {
    #[container(extends)]
    Shop(Shop),
    Refund(Refund),
}

fn main() {}
