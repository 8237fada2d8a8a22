//! The service limits the dimensions of vectors.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "{author}:{number}")]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    #[document(vector(dimensions = 5000))]
    meaning: Vec<f32>,
    #[document(vector(dimensions = 1536, index = flat))]
    place: Vec<f32>,
}
