//! Statements: SQL text with parameters, and the facts that a client needs to execute it without
//! parsing the SQL.

use crate::container::Container;
use crate::document::DecodeError;
use crate::shape::Direction;
use crate::sql::{AggregateKind, Parameter, ValueError};
use crate::value::PartitionKey;

/// The partitions that a query reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One logical partition: the service executes every feature of SQL.
    Partition(PartitionKey),
    /// All logical partitions whose hierarchical key begins with these levels.
    Prefix(PartitionKey),
    /// All physical partitions: the client queries each and merges the results.
    AllPartitions,
}

/// One key of a merge across physical partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// The stored path of the key as a JSON pointer.
    pub pointer: String,
    /// The direction of the key.
    pub direction: Direction,
}

/// The form of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowForm {
    /// A whole document. Sort keys are read from it by their pointers.
    Document,
    /// `{"value": …, "keys": [{"item": …}, …]}`: a value and the sort keys of its document, in the
    /// order of [`Statement::order`]. An undefined key is `{}`.
    ValueWithKeys,
    /// A row per group and physical partition, which [`Groups`](crate::query::aggregate::Groups) merges.
    Aggregates {
        /// The aggregates of each group; empty for distinct keys.
        kinds: Vec<AggregateKind>,
        /// Whether there are groups. Otherwise, all documents are one group.
        grouped: bool,
    },
}

/// A query in the form that the client sends.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The SQL text, which depends on the model only, never on data.
    pub sql: String,
    /// The values.
    pub parameters: Vec<Parameter>,
    /// The partitions to query.
    pub scope: Scope,
    /// The order in which to merge the rows of several physical partitions; empty for any order.
    pub order: Vec<SortKey>,
    /// The maximum number of rows in total. The SQL limits each physical partition to as many.
    pub top: Option<u32>,
    /// The form of each row.
    pub form: RowForm,
}

/// A query of container `C` that can read its rows.
pub trait Fetch<C: Container>: Send + Sync {
    /// The type of a row.
    type Row: Send;

    /// Builds the statement.
    ///
    /// # Errors
    /// When a value of a filter cannot be serialized as JSON.
    fn statement(&self) -> Result<Statement, ValueError>;

    /// Reads one row. `json` is the document, the value (the `value` of
    /// [`RowForm::ValueWithKeys`]), or a row of
    /// [`Groups::into_rows`](crate::query::aggregate::Groups::into_rows).
    ///
    /// # Errors
    /// When the row does not match its Rust type.
    fn read_row(&self, json: &str) -> Result<Self::Row, DecodeError>;
}

/// A query that always has exactly one row.
#[diagnostic::on_unimplemented(
    message = "the query does not always have exactly one row",
    note = "use `first` or `all`"
)]
pub trait SingleRow {}
