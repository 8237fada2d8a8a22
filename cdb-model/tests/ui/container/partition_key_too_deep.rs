//! The service supports three levels.

include!("../order.rs");

#[derive(Container)]
#[container(partition_key = "/a, /b, /c, /d")]
enum Shop {
    Order(Order),
}
