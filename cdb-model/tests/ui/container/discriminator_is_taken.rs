//! The service uses this property.

include!("../order.rs");

#[derive(Container)]
#[container(partition_key = "/customer", discriminator = "_type")]
enum Shop {
    Order(Order),
}
