//! A projection names its document type.

include!("../declaration.rs");

#[derive(Projection, Deserialize)]
struct Number {
    number: u64,
}
