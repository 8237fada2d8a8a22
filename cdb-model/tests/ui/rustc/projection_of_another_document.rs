//! A query selects projections of its own document type.

include!("../paths.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "invoice", id = "{customer}:{number}")]
struct Invoice {
    #[document(partition_key)]
    customer: String,
    number: u64,
}

#[derive(Projection, Deserialize)]
#[projection(of = Order)]
struct Number {
    number: u64,
}

fn main() {
    let _ = Query::<Invoice>::across_partitions().select::<Number>();
}
