//! A container has one computed property per name, and one vector and one language per path.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "note:{number}")]
#[document(computed(short: String = "LEFT({title}, 10)"))]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    title: String,
    #[document(full_text)]
    body: String,
    #[document(vector(dimensions = 3))]
    meaning: Vec<f32>,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "letter", id = "letter:{number}")]
#[document(computed(short: String = "LEFT({title}, 20)"))]
struct Letter {
    #[document(partition_key)]
    author: String,
    number: u64,
    title: String,
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
    short: bool,
    #[document(full_text = "de-DE")]
    body: String,
}

#[derive(Container)]
enum Desk {
    Note(Note),
    Letter(Letter),
    Book(Book),
}
