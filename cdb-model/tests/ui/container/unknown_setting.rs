//! A misspelt setting would have no effect.

include!("../order.rs");

#[derive(Container)]
#[container(partition_key = "/customer", discrimnator = "kind")]
enum Shop {
    Order(Order),
}
