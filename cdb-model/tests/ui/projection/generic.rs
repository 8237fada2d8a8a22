//! A generic projection has no single list of fields.

use cdb_model::Projection;
use serde::Deserialize;

#[derive(Projection, Deserialize)]
#[projection(of = Order)]
struct Number<T> {
    number: T,
}

fn main() {}
