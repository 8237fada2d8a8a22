//! The repository: the calls of a caller who knows one document type and no query text.

use std::marker::PhantomData;
use std::sync::Arc;

use cdb_client::{ContainerClient, Page};
use cdb_model::container::MemberOf;
use cdb_model::document::{KnownPartition, Path};
use cdb_model::operation::{Leasable, Target};
use cdb_model::query::{Filter, Filterable, Operand, QueriedIn};
use cdb_model::{Container, PartitionKey, Query, Scalar, Stored};
use derive_where::derive_where;
use futures::future::try_join_all;

use super::criteria::Criteria;
use super::error::RepositoryError;
use super::written::{RepositoryOperation, write};
use crate::lease::Leases;

/// The documents of type `D` in a container.
///
/// ```
/// use cdb_coordination::Repository;
/// use cdb_coordination::repository::Criteria;
/// use cdb_model::Document as _;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, Shop, order};
/// # shop::with_shop(async |shop| {
///
/// let orders = Repository::<Shop, Order>::new(&shop);
/// orders.run(order(7).create()).await?;
/// let open = orders.query(&Criteria::all().with("state", "open").limit(20)).await?;
/// for mut order in open.rows {
///     order.document.state = "paid".to_owned();
///     orders.run(order.replace()).await?; // fails if another writer has changed it
/// }
/// assert_eq!(orders.count_each(Order::STATE, ["open", "paid"]).await?, [("open", 0), ("paid", 1)]);
/// # Ok(()) }).unwrap();
/// ```
#[derive_where(Clone, Debug)]
pub struct Repository<C, D> {
    container: ContainerClient<C>,
    marker: PhantomData<fn() -> D>,
}

impl<C, D> Repository<C, D>
where
    C: Container,
    D: MemberOf<C>,
{
    /// Creates the repository of a container.
    pub fn new(container: &ContainerClient<C>) -> Self {
        Self {
            container: container.clone(),
            marker: PhantomData,
        }
    }

    /// The container, for operations that a repository does not have.
    pub fn container(&self) -> &ContainerClient<C> {
        &self.container
    }

    /// Reads the document with this key; `None` if it does not exist.
    ///
    /// # Errors
    /// When the read fails.
    pub async fn find<T>(&self, target: T) -> Result<Option<Stored<D>>, RepositoryError>
    where
        T: Target<Document = D>,
        T::Partition: KnownPartition,
    {
        Ok(self.container.read(target).await?)
    }

    /// Executes an operation. A create, upsert or replace returns the document with its version, a
    /// patch the version, a delete nothing.
    ///
    /// After a lost answer the repository reads whether the operation took place: a create, upsert or
    /// replace stores a [mark](cdb_model::document::WriteMark). A creation is sent again while the document
    /// does not exist.
    ///
    /// # Errors
    /// - [`Exists`](RepositoryError::Exists) when another document has the key, or its unique key.
    /// - [`Changed`](RepositoryError::Changed) when the required version no longer exists, or a condition
    ///   of the patch does not hold.
    /// - [`Gone`](RepositoryError::Gone) when the document to replace, patch or delete does not exist.
    /// - [`Undecided`](RepositoryError::Undecided) when an answer was lost and another writer has changed
    ///   the document since; for a patch or a deletion of a version, whenever an answer was lost.
    pub async fn run<O: RepositoryOperation<D>>(
        &self,
        operation: O,
    ) -> Result<O::Answer, RepositoryError> {
        let completed = write(&self.container, operation.into_change()).await?;
        // Only a deletion leaves no version.
        let id = completed.address.id()?.to_string();
        O::answer(completed).ok_or(RepositoryError::Gone { id })
    }
}

impl<C, D> Repository<C, D>
where
    C: Container,
    D: MemberOf<C> + QueriedIn<C>,
{
    /// Returns one page of the documents that meet the criteria, across all partitions.
    ///
    /// # Errors
    /// [`Criteria`](RepositoryError::Criteria) when a field cannot be searched.
    pub async fn query(&self, criteria: &Criteria) -> Result<Page<Stored<D>>, RepositoryError> {
        self.page(criteria, criteria.across_partitions()?).await
    }

    /// Returns one page of the documents of one partition that meet the criteria.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    pub async fn query_in(
        &self,
        partition: impl Into<PartitionKey>,
        criteria: &Criteria,
    ) -> Result<Page<Stored<D>>, RepositoryError> {
        self.page(criteria, criteria.in_partition(partition)?).await
    }

    async fn page(
        &self,
        criteria: &Criteria,
        query: Query<D>,
    ) -> Result<Page<Stored<D>>, RepositoryError> {
        let run = self.container.query(query);
        Ok(run.page(criteria.rows(), criteria.after.as_ref()).await?)
    }

    /// Counts the documents that meet the criteria, ignoring their order and page.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    pub async fn count(&self, criteria: &Criteria) -> Result<u64, RepositoryError> {
        self.counted(criteria.across_partitions()?).await
    }

    /// Counts the documents for each of these values, for example per state. One concurrent query
    /// per value, served by the index; the counts may be from different moments.
    ///
    /// # Errors
    /// When a query fails.
    pub async fn count_each<V, I, M, O>(
        &self,
        path: Path<D, V, I, M>,
        values: impl IntoIterator<Item = O>,
    ) -> Result<Vec<(O, u64)>, RepositoryError>
    where
        I: Filterable<D>,
        V: Scalar,
        O: Operand<V> + Clone,
    {
        let asked = values.into_iter().map(|value| {
            let filter: Filter<D> = path.eq(value.clone());
            let counted = self.counted(Query::across_partitions().filter(filter));
            async move { Ok((value, counted.await?)) }
        });
        try_join_all(asked).await
    }

    async fn counted(&self, query: Query<D>) -> Result<u64, RepositoryError> {
        let count = self.container.query(query.count()).first().await?;
        Ok(count.unwrap_or(0))
    }
}

impl<C, D> Repository<C, D>
where
    C: Container,
    D: MemberOf<C> + Leasable,
{
    /// The leases of these documents in the name of `holder`.
    pub fn leases(&self, holder: impl Into<Arc<str>>) -> Leases<C, D> {
        Leases::new(&self.container, holder)
    }
}
