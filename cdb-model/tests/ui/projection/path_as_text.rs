//! A path is the name of a constant.

include!("../declaration.rs");

#[derive(Projection, Deserialize)]
#[projection(of = "Order")]
struct Number {
    #[projection(path = "/number")]
    number: u64,
}
