//! The service expects a number of seconds in `ttl`.

include!("../order.rs");

#[derive(Container)]
#[container(partition_key = "/customer", discriminator = "ttl")]
enum Shop {
    Order(Order),
}
