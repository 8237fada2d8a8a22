//! The types of a container fit together. One compilation reports all conflicts, each at its variant.

include!("../order.rs");

/// Has the type and the ids of `Order`, and a field in the place of the discriminator.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:order:{type}")]
struct Refund {
    #[document(partition_key)]
    customer: String,
    r#type: String,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "country", id = "country:{country}")]
struct Country {
    #[document(partition_key)]
    country: String,
    #[document(unindexed)]
    payload: String,
}

/// `Country` excludes what this type indexes.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "levels", id = "levels")]
struct Levels {
    #[document(partition_key(1))]
    customer: String,
    #[document(partition_key(2))]
    country: String,
    #[document(index(amount: u64))]
    payload: Payload,
}

#[derive(Serialize, Deserialize)]
struct Payload {
    amount: u64,
}

/// A time to live has no effect if the container disables expiry.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "expiring", id = "expiring")]
struct Expiring {
    #[document(partition_key)]
    customer: String,
    #[document(ttl)]
    ttl: u32,
}

#[derive(Container)]
#[container(default_ttl = "off")]
enum Shop {
    Order(Order),
    Refund(Refund),
    Country(Country),
    Levels(Levels),
    Expiring(Expiring),
}

/// The types of an extension are compared with the inherited types.
#[derive(Container)]
enum Base {
    Order(Order),
}

#[derive(Container)]
enum Larger {
    #[container(extends)]
    Base(Base),
    Refund(Refund),
}

/// A unique key applies to all types of the container, and a missing field counts as null.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "account", id = "account", unique(email))]
struct Account {
    #[document(partition_key)]
    customer: String,
    email: String,
}

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Accounts {
    Expiring(Expiring),
    Account(Account),
    Order(Order),
}

#[derive(Container)]
#[container(partition_key = "/customer")]
enum OnePerPartition {
    Expiring(Expiring),
    Account(Account),
}

/// A given partition key is that of all types.
#[derive(Container)]
#[container(partition_key = "/country")]
enum Moved {
    Order(Order),
}

#[derive(PartitionKeyFields, Serialize, Deserialize)]
struct Place {
    country: String,
}

/// A property has one value.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "house", id = "house")]
struct House {
    #[serde(flatten)]
    #[document(partition_key)]
    place: Place,
    country: String,
}

/// The discriminator and the partition key have different properties.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "flat", id = "flat")]
struct Flat {
    #[serde(flatten)]
    #[document(partition_key)]
    place: Place,
}

#[derive(Container)]
#[container(discriminator = "country")]
enum Town {
    Flat(Flat),
}
