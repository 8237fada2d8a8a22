//! Every commit copies the attributes from the key-value store, so a patch would be lost.

use cdb_provider::SearchAttributes;
use cdb_provider::model::Patch;

#[derive(SearchAttributes)]
struct OrderSearch {
    paid: bool,
}

fn main() {
    let _ = Patch::new().set(OrderSearch::PAID, true);
}
