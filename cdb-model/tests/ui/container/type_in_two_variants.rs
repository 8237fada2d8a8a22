//! A stored document is decoded into one variant.

include!("../order.rs");

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Shop {
    Order(Order),
    Refund(Order),
}
