//! A search for instances by their attributes and other indexed properties.

use cdb_client::query::Continuation;
use cdb_client::{ContainerClient, Page, Result};
use cdb_model::Query;
use cdb_model::query::{Filter, Order};

use crate::operate::admin::instances::visible;
use crate::stored::documents::{Durable, Instance};

/// A search for instances, from [`instances_where`]. Newest first, unless
/// [`order_by`](Self::order_by) is called.
///
/// [`instances_where`]: crate::CosmosDBProvider::instances_where
#[derive(Clone, Debug)]
#[must_use = "`page` or `count` executes the search"]
pub struct InstanceSearch<'a> {
    container: &'a ContainerClient<Durable>,
    query: Query<Instance>,
}

impl<'a> InstanceSearch<'a> {
    pub(crate) fn new(container: &'a ContainerClient<Durable>, filter: Filter<Instance>) -> Self {
        Self {
            container,
            query: Query::across_partitions().filter(visible() & filter),
        }
    }

    /// Sorts by one attribute or property. Instances that lack it are left out.
    pub fn order_by(mut self, order: impl Into<Order<Instance>>) -> Self {
        self.query = self.query.order_by(order);
        self
    }

    /// Returns a page of at most `rows` instances, from the start or from the end of another page.
    ///
    /// # Errors
    /// Fails when the service refuses the query, an instance cannot be decoded, or `from` belongs
    /// to another search.
    pub async fn page(self, rows: usize, from: Option<&Continuation>) -> Result<Page<Instance>> {
        let query = self.query.or_order_by(Instance::BY_CREATED.reversed());
        let page = self.container.query(query).page(rows, from).await?;
        let found = page.rows.into_iter().map(|stored| stored.document);
        Ok(Page {
            rows: found.collect(),
            next: page.next,
        })
    }

    /// Returns the number of instances, in any order.
    ///
    /// # Errors
    /// Fails when the service refuses the query.
    pub async fn count(self) -> Result<u64> {
        self.container.query(self.query.count()).one().await
    }
}
