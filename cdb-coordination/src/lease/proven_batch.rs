//! A batch whose outcome is known from the store: from a document that only it creates, or from a
//! token that it writes.

use cdb_client::write::BatchOutcome;
use cdb_client::{ContainerClient, Error};
use cdb_model::container::MemberOf;
use cdb_model::document::KnownPartition;
use cdb_model::operation::Target;
use cdb_model::{Batch, Container};

use super::fenced_write::{Fenced, FencedWrite, Found, execute_fenced};

/// Sends a batch until it is known whether it took place: then the document `created` exists, which
/// no other writer creates. [`execute_fenced`] does the same for a batch whose versions change
/// between sends.
///
/// # Errors
/// When the outcome cannot be read. After a lost answer the error
/// [is ambiguous](Error::is_ambiguous).
///
/// ```
/// use cdb_coordination::lease::{Fenced, execute_fenced_batch};
/// use cdb_model::{Batch, Document as _};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{OrderKey, order};
/// # shop::with_shop(async |shop| {
///
/// let mut batch = Batch::new("ann");
/// batch.add(order(7).create())?;
/// batch.add(order(8).create())?;
/// let placed = execute_fenced_batch(&shop, &batch, &OrderKey::new("ann", 7)).await?;
/// assert!(matches!(placed, Fenced::Committed(_)));
/// # Ok(()) }).unwrap();
/// ```
pub async fn execute_fenced_batch<C, T>(
    container: &ContainerClient<C>,
    batch: &Batch<C>,
    created: T,
) -> Result<Fenced<BatchOutcome<C>>, Error>
where
    C: Container,
    T: Target,
    T::Document: MemberOf<C>,
    T::Partition: KnownPartition,
{
    let created = &created.address();
    let mut write = ProvenBatch {
        container,
        batch,
        may_be_repeated: true,
        took_place: |latest: ContainerClient<C>| async move {
            Ok(latest.read(created.clone()).await?.is_some())
        },
    };
    execute_fenced(&mut write).await
}

/// Sends a new batch until it is known whether it took place. `took_place` looks for the proof in
/// the latest committed state.
///
/// # Errors
/// The error of the last send, when the batch did not take place or its outcome is unknown. In the
/// latter case it [is ambiguous](Error::is_ambiguous).
pub async fn execute_fenced_once<C, F, R>(
    container: &ContainerClient<C>,
    batch: &Batch<C>,
    took_place: F,
) -> Result<(), Error>
where
    C: Container,
    F: Fn(ContainerClient<C>) -> R + Send + Sync,
    R: Future<Output = Result<bool, Error>> + Send,
{
    let mut write = ProvenBatch {
        container,
        batch,
        may_be_repeated: false,
        took_place,
    };
    match execute_fenced(&mut write).await? {
        Fenced::Refused(error) | Fenced::Unknown(Some(error)) => Err(error),
        // A missing proof is `Found::Unchanged`, and a send without a timeout has an answer or an
        // error.
        Fenced::Committed(_) | Fenced::CommittedBefore | Fenced::Lost | Fenced::Unknown(None) => {
            Ok(())
        }
    }
}

struct ProvenBatch<'a, C, F> {
    container: &'a ContainerClient<C>,
    batch: &'a Batch<C>,
    may_be_repeated: bool,
    took_place: F,
}

impl<C, F, R> FencedWrite for ProvenBatch<'_, C, F>
where
    C: Container,
    F: Fn(ContainerClient<C>) -> R + Send + Sync,
    R: Future<Output = Result<bool, Error>> + Send,
{
    type Container = C;
    type Answer = BatchOutcome<C>;
    type Error = Error;

    fn container(&self) -> &ContainerClient<C> {
        self.container
    }

    fn may_be_repeated(&self) -> bool {
        self.may_be_repeated
    }

    async fn send(&self) -> Result<BatchOutcome<C>, Error> {
        self.container.execute(self.batch).await
    }

    async fn find_out(&mut self, latest: &ContainerClient<C>) -> Result<Found, Error> {
        Ok(if (self.took_place)(latest.clone()).await? {
            Found::Done
        } else {
            Found::Unchanged
        })
    }

    fn unread(lost: Error, _: Error) -> Error {
        lost
    }
}
