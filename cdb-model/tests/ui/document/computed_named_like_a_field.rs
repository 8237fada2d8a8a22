//! A stored property hides a computed one of the same name.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "{author}:{number}")]
#[document(computed(title: String = "LOWER({title})"))]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    title: String,
}
