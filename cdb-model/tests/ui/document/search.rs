//! A vector has dimensions within the service's limits, and a field is searched in one way.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "{author}:{number}")]
struct Note {
    // The id and the partition key are compared as a whole.
    #[document(partition_key, full_text)]
    author: String,
    number: u64,
    // A language is a text.
    #[document(full_text(german))]
    body: String,
    // A field is searched by distance or by words.
    #[document(vector(dimensions = 3), full_text)]
    both: Vec<f32>,
    // A vector has its own kind of index.
    #[document(vector(dimensions = 3), index)]
    indexed: Vec<f32>,
    // The service compares vectors in three ways.
    #[document(vector(dimensions = 3, distance = manhattan))]
    distance: Vec<f32>,
    // The service limits the dimensions of vectors, and those of a flat index.
    #[document(vector(dimensions = 5000))]
    meaning: Vec<f32>,
    #[document(vector(dimensions = 1536, index = flat))]
    place: Vec<f32>,
    // All vectors of a field have the same number of dimensions.
    #[document(vector)]
    no_dimensions: Vec<f32>,
}
