//! A computed property has a type, a name of its own, and an expression of stored fields.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "{author}:{number}")]
// A stored property hides a computed one of the same name.
#[document(computed(title: String = "LOWER({title})"))]
// An expression with an open parenthesis is no SQL.
#[document(computed(not_closed: String = "LOWER({title}"))]
// The service computes a property from stored fields.
#[document(computed(unknown: String = "LOWER({titel})"))]
// An expression without a field has the same value for all documents.
#[document(computed(answer: u64 = "6 * 7"))]
// Filters compare a computed property with values of its type.
#[document(computed(no_type = "LOWER({title})"))]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    title: String,
}
