//! `of` names the document type, so a path is the name of a constant only.

use cdb_model::Projection;
use serde::Deserialize;

#[derive(Projection, Deserialize)]
#[projection(of = Order)]
struct City {
    #[projection(path = Order::ADDRESS_CITY)]
    city: String,
}

fn main() {}
