//! A vector has its own kind of index.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "{author}:{number}")]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    #[document(vector(dimensions = 3), index)]
    meaning: Vec<f32>,
}
