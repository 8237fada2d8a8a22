//! Prints the indexing policy of the provider's container, or writes it to a file.
//!
//! `cargo policy` writes `provider/indexing-policy.json`; a test compares that file with the model.

use cdb_provider::documents::Durable;
use cdb_provider::model::Container;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let policy = Durable::definition().indexing_policy().to_json_pretty();
    match std::env::args().nth(1) {
        Some(path) => std::fs::write(path, policy + "\n")?,
        None => println!("{policy}"),
    }
    Ok(())
}
