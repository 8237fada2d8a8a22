//! Generated code refers to the model by this path.

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(crate = "cdb_model", type = "order", id = "{customer}")]
struct Order {
    #[document(partition_key)]
    customer: String,
}
