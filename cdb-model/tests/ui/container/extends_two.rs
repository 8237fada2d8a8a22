//! Two bases could conflict.

include!("../shop.rs");

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Store {
    Order(Order),
}

#[derive(Container)]
enum Both {
    #[container(extends)]
    Shop(Shop),
    #[container(extends)]
    Store(Store),
}

fn main() {}
