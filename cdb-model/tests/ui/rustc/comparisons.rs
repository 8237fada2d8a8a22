//! Filters, sorts and groups use only types whose stored form can be compared.

include!("../imports.rs");

#[derive(Serialize, Deserialize)]
enum State {
    Open,
}

#[derive(Serialize, Deserialize)]
struct Address {
    city: String,
}

#[derive(Scalar, Serialize, Deserialize)]
enum Priority {
    Low,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{number}")]
// The names of priorities have another order than the priorities.
#[document(composite(BY_PRIORITY = r#type, priority), unique(origin))]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    // An enum declares that it is stored as text.
    #[document(index)]
    state: State,
    // The index has no entry for a whole object, and nor for a whole array.
    #[document(index)]
    address: Address,
    #[document(index)]
    lines: Vec<Address>,
    // Many stored numbers are read as one `f32`, and a filter would find only one of them.
    #[document(index)]
    weight: f32,
    #[document(index)]
    weights: Vec<f32>,
    #[document(index(labels: Vec<String>))]
    extra: Address,
    // Two null values of a unique key conflict, but objects are not compared.
    origin: Address,
    #[document(index)]
    tags: Vec<String>,
    #[document(index)]
    priority: Priority,
    #[document(index)]
    serial: TextInteger<u64>,
}

// The content of a newtype is stored.
#[derive(Scalar, Serialize, Deserialize)]
struct Home(Address);

#[derive(Scalar, Serialize, Deserialize)]
struct Weight(f32);

fn main() {
    let _ = Order::TAGS.eq(vec!["a".to_owned()]);
    let _ = Order::PRIORITY.gt(Priority::Low);
    let _ = Order::SERIAL.desc();
    let _ = Query::<Order>::across_partitions().order_by(Order::PRIORITY);
    let _ = Query::<Order>::across_partitions().max(Order::SERIAL);
    let _ = Query::<Order>::across_partitions().group_by(Order::TAGS);
}
