//! A document without a required field would be unreadable.

include!("../paths.rs");

fn main() {
    let _ = Patch::<Order>::new().move_to(Order::STATUS, Order::NOTE);
}
