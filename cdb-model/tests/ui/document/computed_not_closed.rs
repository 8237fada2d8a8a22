//! An expression with an open parenthesis is no SQL.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "{author}:{number}")]
#[document(computed(title_lower: String = "LOWER({title}"))]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    title: String,
}
