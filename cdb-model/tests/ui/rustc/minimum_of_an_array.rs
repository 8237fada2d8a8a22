//! Arrays have no minimum and maximum.

include!("../paths.rs");

fn main() {
    let _ = Query::<Order>::across_partitions().min(Order::TAGS);
}
