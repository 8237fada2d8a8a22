//! A computed property is not stored, so nothing can change it.

include!("../paths.rs");

fn main() {
    let _ = Patch::<Note>::new().set(Note::TITLE_LOWER, "a".to_owned());
}
