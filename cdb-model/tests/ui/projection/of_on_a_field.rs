//! Settings belong to the struct or to a field.

include!("../declaration.rs");

#[derive(Projection, Deserialize)]
#[projection(path = NUMBER)]
struct Number {
    #[projection(of = Order)]
    number: u64,
}
