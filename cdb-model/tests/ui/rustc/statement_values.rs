//! A value of a statement is in scope.

include!("../paths.rs");

fn main() {
    let _ = sql!("SELECT * FROM {Order} WHERE {Order::STATUS} = {status}");
}
