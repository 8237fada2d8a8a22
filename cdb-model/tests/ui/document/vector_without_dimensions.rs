//! All vectors of a field have the same number of dimensions.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "{author}:{number}")]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    #[document(vector)]
    meaning: Vec<f32>,
}
