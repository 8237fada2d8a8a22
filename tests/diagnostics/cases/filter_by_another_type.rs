//! A filter compares an attribute with values of its type.

use cdb_provider::SearchAttributes;

#[derive(SearchAttributes)]
struct OrderSearch {
    paid: bool,
}

fn main() {
    let _ = OrderSearch::PAID.eq("yes");
}
