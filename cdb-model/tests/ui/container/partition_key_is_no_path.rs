//! A partition key consists of paths.

include!("../order.rs");

#[derive(Container)]
#[container(partition_key = "customer")]
enum Shop {
    Order(Order),
}
