//! `of` names the document type, so a path is the name of a constant only.

include!("../declaration.rs");

#[derive(Projection, Deserialize)]
#[projection(of = Order)]
struct City {
    #[projection(path = Order::ADDRESS_CITY)]
    city: String,
}
