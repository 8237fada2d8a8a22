//! A container is one enum, with one variant per document type.

include!("../order.rs");

#[derive(Container)]
struct Struct {
    order: u64,
}

#[derive(Container)]
enum Generic<T> {
    Order(T),
}

/// A container without types cannot be written or read.
#[derive(Container)]
enum NoVariants {}

/// A stored document is decoded into one variant, which is a document type.
#[derive(Container)]
enum Shop {
    Order(Order),
    Refund(Order),
    Empty,
    Named { order: u64 },
}
