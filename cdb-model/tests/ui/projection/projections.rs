//! A projection is a struct of fields that are read, each at a path of one document type.

#![allow(unreachable_patterns, reason = "serde's own warnings differ between compilers")]

include!("../shop.rs");

#[derive(Projection, Deserialize)]
#[projection(of = Order)]
enum Enum {
    Number(u64),
}

/// A generic projection has no single list of fields.
#[derive(Projection, Deserialize)]
#[projection(of = Order)]
struct Generic<T> {
    number: T,
}

#[derive(Projection, Deserialize)]
struct NoDocument {
    number: u64,
}

#[derive(Projection, Deserialize)]
#[projection(path = NUMBER)]
struct SettingsElsewhere {
    #[projection(of = Order)]
    number: u64,
}

/// A document type and a path are names, and a path is that of the constant only.
#[derive(Projection, Deserialize)]
#[projection(of = "Order")]
struct Texts {
    #[projection(path = "/number")]
    number: u64,
}

#[derive(Projection, Deserialize)]
#[projection(of = Order)]
struct Fields {
    #[projection(path = Order::ADDRESS_CITY)]
    city: String,
    #[serde(skip)]
    number: u64,
    // A flattened field has no path of its own.
    #[serde(flatten)]
    address: Address,
}

/// A property is read into one field.
#[derive(Projection, Deserialize)]
#[projection(of = Order)]
struct Twice {
    number: u64,
    #[serde(rename = "number")]
    #[projection(path = NUMBER)]
    same: u64,
}

fn main() {}
