//! Paths are strings.

include!("../order.rs");

#[derive(Container)]
#[container(partition_key = 1)]
enum Shop {
    Order(Order),
}
