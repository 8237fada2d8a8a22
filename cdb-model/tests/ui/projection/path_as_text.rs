//! A path is the name of a constant.

use cdb_model::Projection;
use serde::Deserialize;

#[derive(Projection, Deserialize)]
#[projection(of = "Order")]
struct Number {
    #[projection(path = "/number")]
    number: u64,
}

fn main() {}
