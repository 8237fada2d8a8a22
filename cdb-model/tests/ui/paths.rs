// Document types that are correct, for cases whose mistake is in the use of a path.

include!("imports.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    #[document(index)]
    number: u64,
    #[document(index)]
    status: String,
    #[document(index)]
    tags: Vec<String>,
    note: Option<String>,
    due: Option<u64>,
    comment: String,
    #[document(updated_at)]
    updated_at: Option<Timestamp>,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "{author}:{number}")]
#[document(computed(title_lower: String = "LOWER({title})"))]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    title: String,
    #[document(index)]
    body: String,
    #[document(vector(dimensions = 3))]
    meaning: Vec<f32>,
}
