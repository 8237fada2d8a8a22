//! Both settings describe the same container.

include!("../shop.rs");

#[derive(Container)]
#[container(partition_key = "/customer", discriminator = "kind")]
enum Larger {
    #[container(extends)]
    Shop(Shop),
}

fn main() {}
