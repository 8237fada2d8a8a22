//! An array contains elements of its own type.

include!("../paths.rs");

fn main() {
    let _ = Order::TAGS.contains(7_u64);
}
