//! The source is a type, whose name in the database is known at run time.

use cdb_model::Container;

#[derive(Container)]
#[container(index_of = "shop", partition_key = "/status")]
enum Index {
    Order(ByStatus),
}

fn main() {}
