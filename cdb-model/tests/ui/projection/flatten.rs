//! A flattened field has no path of its own.

use cdb_model::Projection;
use serde::Deserialize;

#[derive(Projection, Deserialize)]
#[projection(of = Order)]
struct City {
    #[serde(flatten)]
    address: Address,
}

fn main() {}
