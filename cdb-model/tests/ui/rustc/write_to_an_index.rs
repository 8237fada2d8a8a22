//! Programs read an index, and write to its source.

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

fn main() {
    let document = ByStatus { status: "open".to_owned(), number: 1 };
    let _ = Batch::<Index>::new("open").create(&document);
}
