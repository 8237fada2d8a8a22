//! Words are found by a full-text index only.

include!("../paths.rs");

fn main() {
    let _ = Note::BODY.ranked(["a"]);
}
