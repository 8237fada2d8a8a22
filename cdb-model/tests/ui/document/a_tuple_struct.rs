//! Paths are made of named fields.

use cdb_model::Document;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "order")]
struct Order(String);

fn main() {}
