//! The container computes a property for all documents in the same way.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "note:{number}")]
#[document(computed(short: String = "LEFT({title}, 10)"))]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    title: String,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "letter", id = "letter:{number}")]
#[document(computed(short: String = "LEFT({title}, 20)"))]
struct Letter {
    #[document(partition_key)]
    author: String,
    number: u64,
    title: String,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "book", id = "book:{number}")]
struct Book {
    #[document(partition_key)]
    author: String,
    number: u64,
    short: bool,
}

#[derive(Container)]
#[container(partition_key = "/author")]
enum Desk {
    Note(Note),
    Letter(Letter),
    Book(Book),
}
