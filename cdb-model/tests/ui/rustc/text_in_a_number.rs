//! `contains` searches in strings and arrays.

include!("../paths.rs");

fn main() {
    let _ = Order::NUMBER.contains("7");
}
