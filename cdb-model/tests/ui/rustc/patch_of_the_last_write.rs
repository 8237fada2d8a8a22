//! A patch sets the time of the last write itself.

include!("../paths.rs");

fn main() {
    let _patch = Patch::<Order>::new().set(Order::UPDATED_AT, None);
}
