//! A program must not remove the fields of newer ones.

use serde_json::{Map, Value};

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{number}", version = 2, upcast(add_city))]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,

}

fn add_city(_: &mut Map<String, Value>) -> Result<(), UpcastError> {
    Ok(())
}
