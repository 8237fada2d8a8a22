//! Statements as text, for tools.

use std::marker::PhantomData;

use derive_where::derive_where;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::fetch::{Fetch, RowForm, Scope, Statement};
use crate::container::Container;
use crate::document::DecodeError;
use crate::sql::{Parameter, ValueError};
use crate::stored::decode_value;
use crate::value::PartitionKey;

/// A statement that is only known at run time, for tools. Programs use [`sql!`](macro@crate::sql).
///
/// Nothing is checked: neither paths nor types nor indexes, and documents of every type match. The
/// statement is sent as it is, to each physical partition in scope, and the rows of one follow those
/// of another. A statement that sorts, groups or aggregates needs [`in_partition`](Self::in_partition).
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// use cdb_model::query::statement::RawSql;
/// use serde_json::{Value, json};
///
/// fn expensive(customer: &str) -> RawSql<Value> {
///     RawSql::new("SELECT * FROM c WHERE c.totalCents > @least")
///         .parameter("@least", json!(500))
///         .in_partition(customer)
/// }
/// ```
#[derive_where(Clone, Debug)]
pub struct RawSql<Row> {
    statement: Statement,
    marker: PhantomData<fn() -> Row>,
}

impl<Row> RawSql<Row> {
    /// A statement over all physical partitions.
    pub fn new(sql: impl Into<String>) -> Self {
        Self {
            statement: Statement {
                sql: sql.into(),
                parameters: Vec::new(),
                scope: Scope::AllPartitions,
                order: Vec::new(),
                top: None,
                form: RowForm::Document,
            },
            marker: PhantomData,
        }
    }

    /// Adds the value of a parameter, such as `@least`.
    #[must_use]
    pub fn parameter(mut self, name: impl Into<String>, value: Value) -> Self {
        let name = name.into();
        self.statement.parameters.push(Parameter { name, value });
        self
    }

    /// Reads one logical partition, where the service executes every feature of SQL.
    #[must_use]
    pub fn in_partition(mut self, key: impl Into<PartitionKey>) -> Self {
        self.statement.scope = Scope::Partition(key.into());
        self
    }
}

impl<C, Row> Fetch<C> for RawSql<Row>
where
    C: Container,
    Row: DeserializeOwned + Send + 'static,
{
    type Row = Row;

    fn statement(&self) -> Result<Statement, ValueError> {
        Ok(self.statement.clone())
    }

    fn read_row(&self, json: &str) -> Result<Row, DecodeError> {
        decode_value("a row of a statement", json)
    }
}
