//! A field of an index has the type that it has in the source.

include!("../shop.rs");

#[derive(Document, Projection, Serialize, Deserialize)]
#[projection(of = Order)]
#[document(type = "order", id = "order:{number}")]
struct ByStatus {
    #[document(partition_key)]
    status: String,
    number: u32,
}

#[derive(Container)]
#[container(index_of = Shop, partition_key = "/status")]
enum Index {
    Order(ByStatus),
}

fn main() {}
