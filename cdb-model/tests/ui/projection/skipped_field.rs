//! A field that serde skips is not read.

use cdb_model::Projection;
use serde::Deserialize;

#[derive(Projection, Deserialize)]
struct Order {
    #[serde(skip)]
    number: u64,
}

fn main() {}
