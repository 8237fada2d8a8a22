//! A unique key applies to all types of the container, and a missing field counts as null.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "customer", id = "customer")]
struct Customer {
    #[document(partition_key)]
    city: String,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "account", id = "account:{number}", unique(email))]
struct Account {
    #[document(partition_key)]
    city: String,
    number: u64,
    email: String,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "order:{number}")]
struct Order {
    #[document(partition_key)]
    city: String,
    number: u64,
}

#[derive(Container)]
#[container(partition_key = "/city")]
enum Shop {
    Customer(Customer),
    Account(Account),
    Order(Order),
}

#[derive(Container)]
#[container(partition_key = "/city")]
enum Accounts {
    Customer(Customer), // one document per partition
    Account(Account),
}
