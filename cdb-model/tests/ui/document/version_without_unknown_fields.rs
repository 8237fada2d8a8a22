//! A program must not remove the fields of newer ones.

use cdb_model::{Document, UpcastError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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

fn main() {}
