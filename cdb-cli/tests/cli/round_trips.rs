//! Export, import and export again of containers with every shape of key.

use cdb_cli::{Cli, Exit};
use cdb_model::value::AnyPartitionKey;
use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::copy::{export, import, lines};
use crate::harness::{Account, ends};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "visit", id = "visit")]
struct Visit {
    #[document(partition_key)]
    clinic: String,
}

#[derive(Container)]
enum Clinic {
    Visit(Visit),
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "ride", id = "ride")]
struct Ride {
    #[document(partition_key(1))]
    clinic: String,
    #[document(partition_key(2))]
    patient: String,
}

#[derive(Container)]
enum Transport {
    Ride(Ride),
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "bill", id = "bill")]
struct Bill {
    #[document(partition_key(1))]
    clinic: String,
    #[document(partition_key(2))]
    patient: String,
    #[document(partition_key(3))]
    paid: bool,
}

#[derive(Container)]
enum Bills {
    Bill(Bill),
}

/// Values of a level of a partition key; `None` is missing.
fn levels() -> Vec<Option<Value>> {
    let values = json!(["a", "", "é \"x\"\n/", 1, -2.5, 1e21, 0.1, true, false, null]);
    let values = values.as_array().expect("an array").clone();
    values.into_iter().map(Some).chain([None]).collect()
}

/// Returns documents with partition keys of all types.
fn documents(paths: &[&str]) -> Vec<Value> {
    let mut all = vec![json!({ "id": "x", "note": [1.50, "\u{e9}"] })];
    for path in paths {
        let mut next = Vec::new();
        for document in &all {
            for level in levels() {
                let mut document = document.clone();
                if let Some(level) = level {
                    document[&path[1..]] = level;
                }
                next.push(document);
            }
        }
        // Of three levels, every tenth: ten and eleven values have no common divisor.
        let step = if next.len() > 1_000 { 10 } else { 1 };
        all = next.into_iter().step_by(step).collect();
    }
    all
}

/// Exports a container, imports it with the command of its program and with `cdb`, and compares.
async fn comes_back<C: Container>() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = Account::empty().await;
    let container = source.container::<C>().await;
    let paths: Vec<String> = C::PARTITION_KEY
        .iter()
        .map(|&path| path.to_owned())
        .collect();
    let documents = documents(C::PARTITION_KEY);
    for document in &documents {
        let key = AnyPartitionKey::of(document, &paths).expect("a key");
        let stored = container.upsert_json(&key, &document.to_string()).await;
        stored.unwrap_or_else(|error| panic!("{document}: {error}"));
    }
    let first = folder.path().join("first");
    ends(Exit::Ok, export(&source, &first, &[])).await;
    assert_eq!(lines(&first).len(), documents.len());
    let program = Account::empty().await;
    let file = first.to_str().expect("UTF-8");
    let own = Cli::<C>::new("duroxide");
    let of_program = program.run(&own, &["import", file, "--create"]).await;
    let builtin = Account::empty().await;
    builtin.container::<C>().await;
    let of_cdb = import(&builtin, &first, &[]).await;
    for (account, imported) in [(program, of_program), (builtin, of_cdb)] {
        assert_eq!(imported.exit, Exit::Ok, "{imported:?}");
        let second = folder.path().join("second");
        export(&account, &second, &[]).await;
        assert_eq!(lines(&first), lines(&second));
        std::fs::remove_file(second).expect("it is there");
    }
}

#[tokio::test]
async fn a_container_with_a_key_of_one_level_and_any_type_comes_back() {
    comes_back::<Clinic>().await;
}

#[tokio::test]
async fn a_container_with_a_key_of_two_levels_and_any_type_comes_back() {
    comes_back::<Transport>().await;
}

#[tokio::test]
async fn a_container_with_a_key_of_three_levels_and_any_type_comes_back() {
    comes_back::<Bills>().await;
}
