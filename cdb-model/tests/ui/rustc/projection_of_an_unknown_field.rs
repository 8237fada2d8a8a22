//! A projection has only fields of its document.

include!("../paths.rs");

#[derive(Projection, Deserialize)]
#[projection(of = Order)]
struct Number {
    numbr: u64,
}

fn main() {}
