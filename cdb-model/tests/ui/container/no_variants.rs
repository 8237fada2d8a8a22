//! A container without types cannot be written or read.

use cdb_model::Container;

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Shop {}

fn main() {}
