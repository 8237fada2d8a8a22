//! The types of a container are the variants of an enum.

use cdb_model::Container;

#[derive(Container)]
#[container(partition_key = "/customer")]
struct Shop {
    order: u64,
}

fn main() {}
