//! A projection has the types of its document.

include!("../paths.rs");

#[derive(Projection, Deserialize)]
#[projection(of = Order)]
struct Number {
    number: String,
}

fn main() {}
