//! A projection names its document type.

use cdb_model::Projection;
use serde::Deserialize;

#[derive(Projection, Deserialize)]
struct Number {
    number: u64,
}

fn main() {}
