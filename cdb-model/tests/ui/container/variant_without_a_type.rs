//! A variant is a document type.

include!("../order.rs");

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Shop {
    Order(Order),
    Empty,
    Named { order: u64 },
}
