//! An expression without a field has the same value for all documents.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "{author}:{number}")]
#[document(computed(answer: u64 = "6 * 7"))]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    title: String,
}
