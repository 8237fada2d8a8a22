//! A statement uses paths as their index and their type allow.

include!("../paths.rs");

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Shop {
    Order(Order),
}

fn is_query_of_shop<Q: cdb_model::query::statement::Fetch<Shop>>(_: Q) {}

fn main() {
    let comment = "fine";
    // No index serves the path.
    let _ = sql!("SELECT * FROM {Order} WHERE {Order::COMMENT} = {comment}");
    let _ = sql!("SELECT * FROM {Order} ORDER BY {Order::COMMENT}");
    // The path has another type.
    let _ = sql!("SELECT * FROM {Order} WHERE {Order::NUMBER} = {comment}");
    let _ = sql!("SELECT * FROM {Order} WHERE ARRAY_CONTAINS({Order::TAGS}, {7_u64})");
    let _ = sql!("SELECT * FROM {Order} WHERE STARTSWITH({Order::NUMBER}, {comment})");
    // The path is of another type, and the type of another container.
    let _ = sql!("SELECT * FROM {Order} WHERE {Note::BODY} = {comment}");
    is_query_of_shop(sql!("SELECT * FROM {Note}"));
}
