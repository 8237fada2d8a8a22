//! Only strings have a suffix.

include!("../paths.rs");

fn main() {
    let _ = Order::NUMBER.ends_with("7");
}
