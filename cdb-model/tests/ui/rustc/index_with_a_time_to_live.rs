//! Documents of an index expire with those of the source.

include!("../shop.rs");

#[derive(Document, Projection, Serialize, Deserialize)]
#[projection(of = Order)]
#[document(type = "order", id = "order:{number}")]
struct ByStatus {
    #[document(partition_key)]
    status: String,
    number: u64,
    #[document(ttl)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl: Option<u32>,
}

#[derive(Container)]
#[container(index_of = Shop, partition_key = "/status")]
enum Index {
    Order(ByStatus),
}

fn main() {}
