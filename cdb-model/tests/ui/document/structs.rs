//! A document is a struct with named fields, a type, an id and a partition key.

include!("../declaration.rs");

/// Paths are made of named fields.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "order")]
struct Tuple(String);

/// The derive would have to find the fields of the id in every variant.
#[derive(Document, Serialize, Deserialize)]
#[serde(tag = "state")]
#[document(type = "order", id = "{number}")]
enum Enum {
    Open { number: u64 },
    Closed { number: u64 },
}

/// A document that was read has no text to borrow from.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}")]
struct Borrowed<'a> {
    #[document(partition_key)]
    customer: String,
    payload: &'a str,
}

/// A bound is a predicate of a `where` clause.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}", bound = "Clone")]
struct Bound<T> {
    #[document(partition_key)]
    customer: String,
    payload: T,
}

/// Only the author of a document knows which fields make its id unique.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order")]
struct NoId {
    #[document(partition_key)]
    customer: String,
}

/// The service distributes documents by partition key.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}")]
struct NoPartitionKey {
    customer: String,
}

/// The type distinguishes the documents of a container.
#[derive(Document, Serialize, Deserialize)]
#[document(id = "{customer}")]
struct NoType {
    #[document(partition_key)]
    customer: String,
}

/// An empty type cannot be distinguished from a missing one.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "", id = "{customer}")]
struct EmptyType {
    #[document(partition_key)]
    customer: String,
}

/// The type is stored as a string.
#[derive(Document, Serialize, Deserialize)]
#[document(type = 7, id = "{customer}")]
struct NumberAsType {
    #[document(partition_key)]
    customer: String,
}
