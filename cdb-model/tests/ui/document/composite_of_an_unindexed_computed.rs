//! A composite index needs the index of each of its paths.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "{author}:{number}")]
#[document(computed(title_lower: String = "LOWER({title})"))]
#[document(composite(BY_TITLE = r#type, title_lower))]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    title: String,
}

fn main() {}
