//! No index serves comparisons of whole vectors.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "{author}:{number}")]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    #[document(vector(dimensions = 3))]
    meaning: Vec<f32>,
}

fn main() {
    let _ = Note::MEANING.eq(vec![1.0, 2.0, 3.0]);
}
