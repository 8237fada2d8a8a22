//! A container is one type.

use cdb_model::Container;

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Shop<T> {
    Order(T),
}

fn main() {}
