//! A container without document types, and answers of a service for it.

use cdb_model::Container;
use cdb_model::container::DefaultTtl;
use cdb_model::document::DecodeError;
use cdb_model::query::statement::{Fetch, RowForm, Scope, SortKey, Statement, ValueError};
use cdb_model::shape::{Direction, DocumentShape};
use serde_json::{Value, json};

use crate::account::CosmosClient;
use crate::container::ContainerClient;
use crate::credential::MasterKey;
use crate::transport::{Script, Step};

pub(crate) const KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// Any JSON with the type `thing`. The type `number` requires a JSON number, so a document with
/// this type is unreadable.
#[derive(Debug, PartialEq)]
pub(crate) struct Fixture(pub Value);

impl Container for Fixture {
    const NAME: &'static str = "Fixture";
    const DISCRIMINATOR: &'static str = "type";
    const PARTITION_KEY: &'static [&'static str] = &["/pk"];
    const DOCUMENTS: &'static [&'static DocumentShape] = &[];
    const DEFAULT_TTL: DefaultTtl = DefaultTtl::PerDocument;

    fn decode(discriminator: &str, json: &str) -> Result<Self, DecodeError> {
        if discriminator == "number" {
            let number = serde_json::from_str::<i64>(json);
            return number.map(|number| Self(number.into())).map_err(malformed);
        }
        if discriminator != "thing" {
            return Err(DecodeError::UnknownType {
                container: Self::NAME,
                discriminator: discriminator.to_owned(),
            });
        }
        serde_json::from_str(json).map(Self).map_err(malformed)
    }

    fn shape(&self) -> &'static DocumentShape {
        unreachable!("the fixture has no document types")
    }
}

fn malformed(source: serde_json::Error) -> DecodeError {
    DecodeError::Malformed {
        document: "Fixture",
        id: String::new(),
        reason: source,
    }
}

/// Executes any statement and reads rows as JSON.
#[derive(Clone, Debug)]
pub(crate) struct Ask(pub Statement);

impl Fetch<Fixture> for Ask {
    type Row = Value;

    fn statement(&self) -> Result<Statement, ValueError> {
        Ok(self.0.clone())
    }

    fn read_row(&self, json: &str) -> Result<Value, DecodeError> {
        serde_json::from_str(json).map_err(malformed)
    }
}

/// Returns documents across partitions, by `n` ascending.
pub(crate) fn ordered(top: Option<u32>) -> Ask {
    Ask(Statement {
        sql: "SELECT * FROM c ORDER BY c.n".to_owned(),
        parameters: Vec::new(),
        scope: Scope::AllPartitions,
        order: vec![SortKey {
            pointer: "/n".to_owned(),
            direction: Direction::Ascending,
        }],
        top,
        form: RowForm::Document,
    })
}

pub(crate) fn client(script: &Script) -> CosmosClient {
    CosmosClient::builder("https://account.documents.azure.com")
        .credential(MasterKey::new(KEY).unwrap())
        .transport(script.clone())
        .build()
        .unwrap()
}

pub(crate) fn fixture(script: &Script) -> ContainerClient<Fixture> {
    client(script).database("db").container("c")
}

/// A listing of these ranges: id, min, max, parents.
pub(crate) fn listing(ranges: &[(&str, &str, &str, &[&str])]) -> Step {
    let ranges: Vec<Value> = ranges
        .iter()
        .map(|(id, min, max, parents)| {
            json!({"id": id, "minInclusive": min, "maxExclusive": max, "parents": parents, "status": "online"})
        })
        .collect();
    Step::json(&json!({"_rid": "x", "PartitionKeyRanges": ranges, "_count": ranges.len()}))
}

pub(crate) fn one_range() -> Step {
    listing(&[("0", "", "FF", &[])])
}

pub(crate) fn two_ranges() -> Step {
    listing(&[("1", "", "1F", &[]), ("2", "1F", "FF", &[])])
}

pub(crate) fn page(rows: &Value) -> Step {
    Step::json(&json!({"_rid": "x", "Documents": rows, "_count": 0}))
}

/// A page of documents with these `n`.
pub(crate) fn numbers(numbers: &[i64]) -> Step {
    page(&numbers.iter().map(|n| json!({"n": n})).collect())
}

pub(crate) fn continued(step: Step) -> Step {
    step.header("x-ms-continuation", "more")
}

pub(crate) fn n_of(rows: &[Value]) -> Vec<i64> {
    rows.iter().map(|row| row["n"].as_i64().unwrap()).collect()
}
