//! A projection reads an object with known fields.

use cdb_model::Projection;
use serde::Deserialize;

#[derive(Projection, Deserialize)]
#[projection(of = Order)]
enum Number {
    Number(u64),
}

fn main() {}
