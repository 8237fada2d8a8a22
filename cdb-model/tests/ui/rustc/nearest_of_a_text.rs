//! Distances are those of vectors.

include!("../paths.rs");

fn main() {
    let _ = Note::BODY.nearest("a");
}
