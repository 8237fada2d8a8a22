//! The service computes a property from stored fields.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "{author}:{number}")]
#[document(computed(title_lower: String = "LOWER({titel})"))]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    title: String,
}
