//! An index contains types of its source only.

include!("../shop.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "refund", id = "refund:{number}")]
struct Refund {
    #[document(partition_key)]
    customer: String,
    number: u64,
    status: String,
}

#[derive(Document, Projection, Serialize, Deserialize)]
#[projection(of = Refund)]
#[document(type = "refund", id = "refund:{number}")]
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
