//! An index has the discriminators of its source.

include!("../shop.rs");

#[derive(Document, Projection, Serialize, Deserialize)]
#[projection(of = Order)]
#[document(type = "orderByStatus", id = "order:{number}")]
struct ByStatus {
    #[document(partition_key)]
    status: String,
    number: u64,
}

#[derive(Container)]
#[container(index_of = Shop, partition_key = "/status")]
enum Index {
    Order(ByStatus),
}

fn main() {}
