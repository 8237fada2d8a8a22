//! Only arrays take further elements.

include!("../paths.rs");

fn main() {
    let _ = Patch::<Order>::new().append(Order::STATUS, "open".to_owned());
}
