//! A container without types could neither be written nor read.

use cdb_model::Container;

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Shop {}

fn main() {}
