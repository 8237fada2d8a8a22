//! A field is searched by distance or by words.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "{author}:{number}")]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    #[document(vector(dimensions = 3), full_text)]
    meaning: Vec<f32>,
}
