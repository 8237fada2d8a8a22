//! One variant contains the extended container, which has the settings of both.

include!("../shop.rs");

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Store {
    Order(Order),
}

/// Two bases could conflict.
#[derive(Container)]
enum Both {
    #[container(extends)]
    Shop(Shop),
    #[container(extends)]
    Store(Store),
}

#[derive(Container)]
#[container(partition_key = "/customer", discriminator = "kind")]
enum Repeats {
    #[container(extends)]
    Shop(Shop),
}

#[derive(Container)]
#[container(extends, partition_key = "/customer")]
enum OnTheEnum {
    Order(Order),
}

fn main() {}
