//! The variants of an enum are the types of a container.

include!("../declaration.rs");

#[derive(Container)]
#[container(partition_key = "/customer")]
struct Shop {
    order: u64,
}
