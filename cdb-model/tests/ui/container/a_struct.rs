//! The variants of an enum are the types of a container.

use cdb_model::Container;

#[derive(Container)]
#[container(partition_key = "/customer")]
struct Shop {
    order: u64,
}

fn main() {}
