//! A language is a text.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "{author}:{number}")]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    #[document(full_text(german))]
    body: String,
}
