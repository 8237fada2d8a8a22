//! The service refuses a sort without an index.

include!("../paths.rs");

fn main() {
    let _ = Order::COMMENT.desc();
}
