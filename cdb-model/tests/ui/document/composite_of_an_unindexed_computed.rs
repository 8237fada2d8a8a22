//! A composite index needs the index of each of its paths.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "{author}:{number}")]
#[document(computed(title_lower: String = "LOWER({title})"))]
#[document(composite(BY_TITLE = r#type, title_lower))]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    title: String,
}
