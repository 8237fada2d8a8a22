//! Words are found by a full-text index only.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "{author}:{number}")]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    #[document(index)]
    body: String,
}

fn main() {
    let _ = Note::BODY.ranked(["a"]);
}
