//! The source of an index is a container that programs write to.

include!("../shop.rs");

#[derive(Document, Projection, Serialize, Deserialize)]
#[projection(of = Order)]
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

#[derive(Document, Projection, Serialize, Deserialize)]
#[projection(of = ByStatus)]
#[document(type = "order", id = "order:{number}")]
struct ByNumber {
    #[document(partition_key)]
    status: String,
    number: u64,
}

#[derive(Container)]
#[container(index_of = Index, partition_key = "/status")]
enum Second {
    Order(ByNumber),
}

fn main() {}
