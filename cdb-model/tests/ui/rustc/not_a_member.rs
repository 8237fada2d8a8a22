//! A container stores only its own types.

include!("../shop.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "refund", id = "{customer}:refund")]
struct Refund {
    #[document(partition_key)]
    customer: String,
}

fn main() {
    let refund = Refund { customer: "c".to_owned() };
    let _ = Batch::<Shop>::new("c").create(&refund);
}
