//! The source is a type, whose name in the database is known at run time.

include!("../declaration.rs");

#[derive(Container)]
#[container(index_of = "shop", partition_key = "/status")]
enum Index {
    Order(ByStatus),
}
