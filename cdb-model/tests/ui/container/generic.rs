//! A container is one type.

include!("../declaration.rs");

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Shop<T> {
    Order(T),
}
