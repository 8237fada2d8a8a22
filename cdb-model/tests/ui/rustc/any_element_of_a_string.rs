//! Only arrays have elements.

include!("../paths.rs");

fn main() {
    let _ = Order::STATUS.contains_any(["open"]);
}
