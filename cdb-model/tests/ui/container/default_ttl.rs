//! A misread time to live would delete documents.

include!("../order.rs");

#[derive(Container)]
#[container(partition_key = "/customer", default_ttl = 0)]
enum Shop {
    Order(Order),
}
