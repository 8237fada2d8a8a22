//! The service compares vectors in three ways.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "{author}:{number}")]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    #[document(vector(dimensions = 3, distance = manhattan))]
    meaning: Vec<f32>,
}
