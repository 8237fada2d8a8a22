//! A setting is known, stands once where it belongs, and has the value that it takes.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}")]
// Generated code refers to the model by this path.
#[document(crate = "cdb_model")]
// Indexing is declared at the field.
#[document(index)]
struct Order {
    #[document(partition_key)]
    customer: String,
    // The id belongs to the whole document.
    #[document(id = "{number}")]
    number: u64,
    // A path is either included or excluded.
    #[document(index, unindexed)]
    status: String,
    // One of two values would be ignored.
    #[document(index)]
    #[document(index)]
    twice: String,
    // A misspelt setting would have no effect.
    #[document(indx)]
    misspelt: String,
    // Settings are in parentheses.
    #[document = "index"]
    no_parentheses: String,
    // A mark has no value.
    #[document(unindexed = true)]
    note: String,
    // Paths inside a field are given in parentheses, with their types.
    #[document(index = "city")]
    city: String,
    #[document(index(city))]
    address: Address,
    #[document(paths)]
    cart: Address,
    #[document(paths(lines[].sku: String))]
    carts: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Address {
    city: String,
}
