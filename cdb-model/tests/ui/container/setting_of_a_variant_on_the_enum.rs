//! One variant contains the extended container.

include!("../order.rs");

#[derive(Container)]
#[container(extends, partition_key = "/customer")]
enum Shop {
    Order(Order),
}
