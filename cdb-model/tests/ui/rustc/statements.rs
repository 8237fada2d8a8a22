//! A statement uses paths as their index and their type allow.

include!("../paths.rs");

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Shop {
    Order(Order),
}

fn is_query_of_shop<Q: cdb_model::Fetch<Shop>>(_: Q) {}

fn main() {
    let comment = "fine";
    // No index serves the path.
    let _ = sql!("SELECT * FROM {Order} WHERE {Order::COMMENT} = {comment}" => Order);
    let _ = sql!("SELECT * FROM {Order} ORDER BY {Order::COMMENT}" => Order);
    // The path has another type.
    let _ = sql!("SELECT * FROM {Order} WHERE {Order::NUMBER} = {comment}" => Order);
    let _ = sql!("SELECT * FROM {Order} WHERE ARRAY_CONTAINS({Order::TAGS}, {7_u64})" => Order);
    let _ = sql!("SELECT * FROM {Order} WHERE STARTSWITH({Order::NUMBER}, {comment})" => Order);
    // The path is of another type, and the type of another container.
    let _ = sql!("SELECT * FROM {Order} WHERE {Note::BODY} = {comment}" => Order);
    is_query_of_shop(sql!("SELECT * FROM {Note}" => Note));
}
