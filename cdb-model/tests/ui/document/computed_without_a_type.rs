//! Filters compare a computed property with values of its type.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "{author}:{number}")]
#[document(computed(title_lower = "LOWER({title})"))]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    title: String,
}
