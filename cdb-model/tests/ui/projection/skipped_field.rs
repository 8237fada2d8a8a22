//! A field that serde skips is not read.

use cdb_model::Projection;
use serde::Deserialize;

#[derive(Projection, Deserialize)]
#[projection(of = Order)]
struct Number {
    #[serde(skip)]
    number: u64,
}

fn main() {}
