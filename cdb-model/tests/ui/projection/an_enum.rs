//! A projection reads an object with known fields.

include!("../declaration.rs");

#[derive(Projection, Deserialize)]
#[projection(of = Order)]
enum Number {
    Number(u64),
}
