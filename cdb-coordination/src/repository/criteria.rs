//! Search criteria from outside: conditions, an order, a page.

use cdb_client::query::Continuation;
use cdb_model::query::{
    CriteriaError, Criterion, Filter, Operator, Order, Queryable, SortCriterion,
};
use cdb_model::{Document, PartitionKey, Query};
use serde::{Deserialize, Serialize};

/// The most rows of one page.
const MOST_ROWS: u32 = 1000;

/// The default rows of a page.
const ROWS: u32 = 50;

/// A search that is known only at run time, from JSON or URL parameters:
///
/// ```json
/// {"filter": [{"field": "state", "value": "REQUESTED"}], "sort": {"field": "updatedAt", "direction": "descending"}, "limit": 20}
/// ```
///
/// Fields have their Rust names or their stored names, and must be indexed.
///
/// ```
/// use cdb_coordination::Repository;
/// use cdb_coordination::repository::Criteria;
/// use cdb_model::Document as _;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, order};
/// # shop::with_shop(async |shop| {
///
/// let orders = Repository::<_, Order>::new(&shop);
/// orders.run(order(1).create()).await?;
/// let open = orders.query(&Criteria::all().with("state", "open").limit(10)).await?;
/// assert_eq!(open.rows.len(), 1);
/// let refused = orders.query(&Criteria::all().with("colour", "red")).await;
/// assert!(refused.unwrap_err().is_bad_request());
/// # Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Criteria {
    /// Conditions that must all hold.
    pub filter: Vec<Criterion>,
    /// The order; any order by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort: Option<SortCriterion>,
    /// The rows of a page: 50 by default, at most 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The continuation of the previous page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Continuation>,
}

impl Criteria {
    /// All documents.
    pub fn all() -> Self {
        Self::default()
    }

    /// Adds the condition that a field has this value.
    #[must_use]
    pub fn with(self, field: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
        self.with_criterion(Criterion {
            field: field.into(),
            operator: Operator::Eq,
            value: value.into(),
        })
    }

    /// Adds a condition.
    #[must_use]
    pub fn with_criterion(mut self, criterion: Criterion) -> Self {
        self.filter.push(criterion);
        self
    }

    /// Sets the order.
    #[must_use]
    pub fn sorted_by(mut self, sort: SortCriterion) -> Self {
        self.sort = Some(sort);
        self
    }

    /// Sets the rows per page.
    #[must_use]
    pub fn limit(mut self, rows: u32) -> Self {
        self.limit = Some(rows);
        self
    }

    /// Continues after a page.
    #[must_use]
    pub fn after(mut self, page: Continuation) -> Self {
        self.after = Some(page);
        self
    }

    pub(super) fn rows(&self) -> usize {
        let rows = self.limit.unwrap_or(ROWS).clamp(1, MOST_ROWS);
        usize::try_from(rows).unwrap_or(usize::MAX)
    }

    /// The query of all physical partitions, for example for
    /// [`Leases::take_next`](crate::Leases::take_next). `limit` and `after` are not part of it.
    ///
    /// # Errors
    /// When a field is unknown or not indexed, or a value does not match its operator.
    pub fn across_partitions<D: Document + Queryable>(&self) -> Result<Query<D>, CriteriaError> {
        self.complete(Query::across_partitions())
    }

    /// The query of one partition.
    ///
    /// # Errors
    /// As [`across_partitions`](Self::across_partitions).
    pub fn in_partition<D: Document + Queryable>(
        &self,
        partition: impl Into<PartitionKey>,
    ) -> Result<Query<D>, CriteriaError> {
        self.complete(Query::in_partition(partition))
    }

    fn complete<D: Document + Queryable>(
        &self,
        query: Query<D>,
    ) -> Result<Query<D>, CriteriaError> {
        let query = query.filter(Filter::from_criteria(&self.filter)?);
        Ok(match &self.sort {
            Some(sort) => query.order_by(Order::from_criterion(sort)?),
            None => query,
        })
    }
}
