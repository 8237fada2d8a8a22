//! The paths of the partition key are chosen when a container is created.

include!("../order.rs");

#[derive(Container)]
enum Shop {
    Order(Order),
}
