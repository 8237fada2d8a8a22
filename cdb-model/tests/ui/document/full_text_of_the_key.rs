//! The id and the partition key are compared as a whole.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "{author}:{number}")]
struct Note {
    #[document(partition_key, full_text)]
    author: String,
    number: u64,
}

fn main() {}
