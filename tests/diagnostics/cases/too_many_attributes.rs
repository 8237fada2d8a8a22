//! Every attribute costs request units with every write of the instance.

use cdb_provider::SearchAttributes;

#[derive(SearchAttributes)]
struct OrderSearch {
    a: bool,
    b: bool,
    c: bool,
    d: bool,
    e: bool,
    f: bool,
    g: bool,
    h: bool,
    i: bool,
    j: bool,
    k: bool,
    l: bool,
    m: bool,
    n: bool,
    o: bool,
    p: bool,
    q: bool,
}

fn main() {}
