//! An index inherits discriminator and expiry from its source, and contains nothing else.

include!("../declaration.rs");

#[derive(Container)]
#[container(index_of = Shop, partition_key = "/status", discriminator = "type", default_ttl = 60)]
enum Index {
    #[container(extends)]
    Durable(Durable),
    Order(ByStatus),
}
