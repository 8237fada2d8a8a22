//! A projection has fields and types of its document, and serves the queries of that document.

include!("../paths.rs");

#[derive(Projection, Deserialize)]
#[projection(of = Order)]
struct UnknownField {
    numbr: u64,
}

#[derive(Projection, Deserialize)]
#[projection(of = Order)]
struct AnotherType {
    number: String,
}

#[derive(Projection, Deserialize)]
#[projection(of = Order)]
struct Number {
    number: u64,
}

fn main() {
    let _ = Query::<Note>::across_partitions().select::<Number>();
}
