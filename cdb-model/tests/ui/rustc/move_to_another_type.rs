//! A value keeps its type when it is moved.

include!("../paths.rs");

fn main() {
    let _ = Patch::<Order>::new().move_to(Order::NOTE, Order::DUE);
}
