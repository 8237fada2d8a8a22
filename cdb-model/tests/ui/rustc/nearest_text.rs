//! Vectors are compared with vectors.

include!("../paths.rs");

fn main() {
    let _ = Note::MEANING.nearest("a");
}
