//! A unique key consists of fields with one value.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
// The service compares single values.
#[document(unique(tags))]
#[document(unique(emial))]
// A unique key without fields would allow one document per partition.
#[document(unique())]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    tags: Vec<String>,
    email: String,
}
