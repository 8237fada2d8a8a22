//! An index has whole properties under their own names.

include!("../shop.rs");

#[derive(Document, Projection, Serialize, Deserialize)]
#[projection(of = Order)]
#[document(type = "order", id = "order:{number}")]
struct ByStatus {
    #[document(partition_key)]
    status: String,
    number: u64,
    #[projection(path = ADDRESS_CITY)]
    city: String,
}

#[derive(Container)]
#[container(index_of = Shop, partition_key = "/status")]
enum Index {
    Order(ByStatus),
}

fn main() {}
