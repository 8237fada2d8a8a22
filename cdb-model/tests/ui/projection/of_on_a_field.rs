//! Settings belong to the struct or to a field.

use cdb_model::Projection;
use serde::Deserialize;

#[derive(Projection, Deserialize)]
#[projection(path = NUMBER)]
struct Number {
    #[projection(of = Order)]
    number: u64,
}

fn main() {}
