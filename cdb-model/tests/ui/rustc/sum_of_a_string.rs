//! Only numbers have a sum and an average.

include!("../paths.rs");

fn main() {
    let _ = Query::<Order>::across_partitions().sum(Order::STATUS);
}
