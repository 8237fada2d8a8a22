//! No index serves comparisons of whole vectors.

include!("../paths.rs");

fn main() {
    let _ = Note::MEANING.eq(vec![1.0, 2.0, 3.0]);
}
