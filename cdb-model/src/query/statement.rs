//! The finished question: SQL text with parameters, and what a client must know to ask it.
//!
//! The client sends statements and reads rows; it never looks into the SQL.

use serde::Serialize;

use crate::codec_error::DecodeError;
use crate::container::Container;
use crate::partition_key::PartitionKey;
use crate::shape::Direction;

/// Where a query is asked.
///
/// ```
/// use cdb_model::{Fetch, PartitionKey, Query, Scope};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, Shop};
///
/// let query = Query::<Order>::in_partition("ada");
/// let Scope::Partition(key) = Fetch::<Shop>::statement(&query).scope else {
///     panic!("each physical partition would be asked, and paid for");
/// };
/// assert_eq!(key, PartitionKey::from("ada"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One logical partition: every feature of SQL runs on the service.
    Partition(PartitionKey),
    /// Every physical partition; the client asks each and merges.
    AllPartitions,
}

/// A query parameter as the service takes it.
///
/// ```
/// use cdb_model::{Fetch, Parameter, Query};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, Shop};
///
/// let query = Query::<Shop>::in_partition("ada").filter(Order::TOTAL_CENTS.gt(100_u64).within());
/// let statement = Fetch::<Shop>::statement(&query);
/// let total = Parameter { name: "@p1".into(), value: 100.into() };
/// assert_eq!(statement.parameters.last(), Some(&total)); // `@p0` is the type
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameter {
    /// `@p0`, `@p1`, …
    pub name: String,
    /// The value. Never part of the SQL text.
    pub value: serde_json::Value,
}

/// One key of a merge across physical partitions.
///
/// ```
/// use cdb_model::{Direction, Fetch, Query, SortKey};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, Shop};
///
/// // What a client compares when it merges the answers of several physical partitions.
/// let query = Query::<Order>::across_partitions().order_by(Order::TOTAL_CENTS.desc());
/// let by_total = SortKey { pointer: "/totalCents".into(), direction: Direction::Descending };
/// assert_eq!(Fetch::<Shop>::statement(&query).order, [by_total]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// Stored path of the key as a JSON pointer.
    pub pointer: String,
    /// Its direction.
    pub direction: Direction,
}

/// What a row of the answer looks like.
///
/// ```
/// use cdb_model::{Fetch, Query, RowForm};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, Shop};
///
/// let orders = Query::<Order>::across_partitions();
/// assert_eq!(Fetch::<Shop>::statement(&orders).form, RowForm::Document);
/// assert_eq!(Fetch::<Shop>::statement(&orders.count()).form, RowForm::Count); // the client adds them up
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowForm {
    /// A whole document. Sort keys are read from it by their pointers.
    Document,
    /// `{"value": …, "keys": […]}`: a value and the sort keys of its document, in the order of [`Statement::order`].
    ValueWithKeys,
    /// A bare number per physical partition, to be added up.
    Count,
}

/// A query ready to be sent.
///
/// ```
/// use cdb_model::{Fetch, Query};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, Shop};
///
/// let query = Query::<Order>::in_partition("ada").filter(Order::TOTAL_CENTS.gt(100_u64));
/// let statement = Fetch::<Shop>::statement(&query);
/// assert!(!statement.sql.contains("100")); // values are parameters, always
/// assert_eq!(statement.parameters.last().map(|last| last.value.clone()), Some(100.into()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// SQL text; made from the model alone, never from data.
    pub sql: String,
    /// The values.
    pub parameters: Vec<Parameter>,
    /// Where to ask.
    pub scope: Scope,
    /// How to merge the answers of several physical partitions; empty when any order will do.
    pub order: Vec<SortKey>,
    /// At most this many rows in total. The SQL asks each physical partition for as many.
    pub top: Option<u32>,
    /// What each row looks like.
    pub form: RowForm,
}

/// A query of container `C` that knows how to read its rows.
///
/// ```
/// use cdb_model::{Container, Fetch};
///
/// /// For a log: what a query asks.
/// fn sql<C: Container>(query: &impl Fetch<C>) -> String {
///     query.statement().sql
/// }
/// ```
pub trait Fetch<C: Container>: Send + Sync {
    /// What one row becomes.
    type Row: Send;

    /// The question.
    fn statement(&self) -> Statement;

    /// Reads one row; `json` is the document, the bare value (of [`RowForm::ValueWithKeys`], only its `value`), or the count.
    ///
    /// # Errors
    /// When a stored document does not fit its Rust type.
    fn read_row(&self, json: &str) -> Result<Self::Row, DecodeError>;
}
