//! A filter without an index would read every document.

include!("../paths.rs");

fn main() {
    let _ = Order::COMMENT.eq("open");
}
