//! A field that serde skips is not read.

include!("../declaration.rs");

#[derive(Projection, Deserialize)]
#[projection(of = Order)]
struct Number {
    #[serde(skip)]
    number: u64,
}
