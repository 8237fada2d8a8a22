//! The fields of an index are checked against a type of its source.

include!("../shop.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "order:{number}")]
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
