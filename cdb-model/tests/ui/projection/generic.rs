//! A generic projection has no single list of fields.

include!("../declaration.rs");

#[derive(Projection, Deserialize)]
#[projection(of = Order)]
struct Number<T> {
    number: T,
}
