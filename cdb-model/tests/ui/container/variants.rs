//! A container is one enum, with one variant per document type.

include!("../order.rs");

#[derive(Container)]
#[container(partition_key = "/customer")]
struct Struct {
    order: u64,
}

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Generic<T> {
    Order(T),
}

/// A container without types cannot be written or read.
#[derive(Container)]
#[container(partition_key = "/customer")]
enum NoVariants {}

/// A stored document is decoded into one variant, which is a document type.
#[derive(Container)]
#[container(partition_key = "/customer")]
enum Shop {
    Order(Order),
    Refund(Order),
    Empty,
    Named { order: u64 },
}
