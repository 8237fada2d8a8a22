//! A computed property is not stored, so nothing can change it.

use cdb_model::{Document, Patch};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "{author}:{number}")]
#[document(computed(title_lower: String = "LOWER({title})"))]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    title: String,
}

fn main() {
    let _ = Patch::<Note>::new().set(Note::TITLE_LOWER, "a".to_owned());
}
