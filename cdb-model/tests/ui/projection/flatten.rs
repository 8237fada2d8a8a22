//! A flattened field has no path of its own.

include!("../declaration.rs");

#[derive(Projection, Deserialize)]
#[projection(of = Order)]
struct City {
    #[serde(flatten)]
    address: Address,
}
