//! The id and the partition key are compared as a whole.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "{author}:{number}")]
struct Note {
    #[document(partition_key, full_text)]
    author: String,
    number: u64,
}
