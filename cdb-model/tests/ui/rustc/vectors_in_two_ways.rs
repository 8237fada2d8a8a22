//! The container has one vector and one language per path.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "note:{number}")]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    #[document(full_text)]
    body: String,
    #[document(vector(dimensions = 3))]
    meaning: Vec<f32>,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "letter", id = "letter:{number}")]
struct Letter {
    #[document(partition_key)]
    author: String,
    number: u64,
    #[document(full_text)]
    body: String,
    #[document(vector(dimensions = 4))]
    meaning: Vec<f32>,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "book", id = "book:{number}")]
struct Book {
    #[document(partition_key)]
    author: String,
    number: u64,
    #[document(full_text = "de-DE")]
    body: String,
}

#[derive(Container)]
#[container(partition_key = "/author")]
enum Desk {
    Note(Note),
    Letter(Letter),
    Book(Book),
}
