//! A composite is a named list of two to eight indexed paths, each with one value and a direction.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}")]
// A sort is ascending or descending.
#[document(composite(DIRECTION = r#type, total down))]
// Composites and fields become constants of the same struct.
#[document(composite(TOTAL = r#type, total))]
// A document with an array of values has no single position in a sort.
#[document(composite(BY_TAGS = r#type, tags))]
// A composite does not replace the index of its paths.
#[document(composite(BY_STATUS = status, total))]
#[document(computed(status_lower: String = "LOWER({status})"))]
#[document(composite(BY_LOWER = r#type, status_lower))]
// A composite consists of fields.
#[document(composite(BY_TOTL = r#type, totl))]
// A sort by one path needs no composite.
#[document(composite(BY_ONE = total))]
// A repeated path never affects the order.
#[document(composite(BY_TWICE = total, total desc))]
// A composite becomes a constant, which needs a name.
#[document(composite(r#type, total))]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(index)]
    total: u64,
    #[document(index)]
    tags: Vec<String>,
    status: String,
}
