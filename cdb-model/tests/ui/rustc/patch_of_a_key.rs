//! Ids and partition keys never change.

include!("../paths.rs");

fn main() {
    let _ = Patch::<Order>::new().set(Order::NUMBER, 2);
}
