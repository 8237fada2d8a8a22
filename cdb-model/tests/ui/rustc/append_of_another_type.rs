//! An array takes elements of its own type.

include!("../paths.rs");

fn main() {
    let _ = Patch::<Order>::new().append(Order::TAGS, 7_u64);
}
