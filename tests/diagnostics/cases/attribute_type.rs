//! An attribute is a single value, so that an index can compare it.

use cdb_provider::SearchAttributes;

#[derive(SearchAttributes)]
struct OrderSearch {
    customer: String,
    items: Vec<String>,
    // Many stored numbers are read as one `f32`.
    weight: f32,
}

fn main() {}
