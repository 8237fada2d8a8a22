//! The settings of a container have values of their kind.

include!("../order.rs");

/// A partition key consists of paths. The service uses the property `_type`.
#[derive(Container)]
#[container(partition_key = "customer", discriminator = "_type")]
enum NoPath {
    Order(Order),
}

/// A misread time to live would delete documents. The service expects a number of seconds in `ttl`.
#[derive(Container)]
#[container(partition_key = 1, default_ttl = 0, discriminator = "ttl")]
enum NoString {
    Order(Order),
}

/// The service supports three levels. A misspelt setting would have no effect.
#[derive(Container)]
#[container(partition_key = "/a, /b, /c, /d", discrimnator = "kind")]
enum TooDeep {
    Order(Order),
}

/// The partition key comes from the types, unless they take it from the container.
#[derive(Document, Serialize, Deserialize)]
#[serde(bound = "")]
#[document(type = "message", id = "message:{number}", bound = "C: Container")]
struct Message<C> {
    #[serde(flatten)]
    #[document(partition_key)]
    key: KeyOf<C>,
    number: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
struct KeyOf<C>(std::marker::PhantomData<fn() -> C>);

impl<C: Container> PartitionKeyFields for KeyOf<C> {
    const PATHS: &'static [&'static str] = C::PARTITION_KEY;

    fn to_partition_key(&self) -> cdb_model::PartitionKey {
        unreachable!()
    }
}

#[derive(Container)]
enum Mailbox {
    Message(Message<Mailbox>),
}
