//! A batch that is proven by one document, which only it creates or only it deletes.

use std::time::Duration;

use cdb_client::{BatchOutcome, ContainerClient, Error};
use cdb_model::{Batch, Container, LocatedKey, MemberOf};

use super::fenced_write::{Fenced, FencedWrite, Found, execute_fenced};

/// How often the batch is sent while its outcome is unknown.
const MAX_SENDS: u32 = 4;

/// What proves that a batch took place; [`execute_proven`] shows it in use.
///
/// ```
/// use cdb_coordination::Proof;
///
/// let proof = Proof::Created("the key of a document that only this batch creates");
/// assert!(matches!(proof, Proof::Created(_)));
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Proof<K> {
    /// The document of this key exists. No other writer uses the key.
    Created(K),
    /// The document of this key does not exist any more. No other writer deletes it.
    Deleted(K),
}

/// Sends a batch until it is known whether it took place. See [`execute_fenced`] for one whose versions change between sends.
///
/// # Errors
/// When the outcome cannot be read.
///
/// ```
/// use cdb_coordination::{Fenced, Proof, execute_proven};
/// use cdb_model::Batch;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{OrderKey, order};
/// # shop::with_shop(async |shop| {
///
/// let mut batch = Batch::new("ann");
/// batch.create(&order(7))?;
/// batch.create(&order(8))?;
/// let proof = Proof::Created(OrderKey::new("ann", 7_u64));
/// let placed = execute_proven(&shop, &batch, &proof).await?;
/// assert!(matches!(placed, Fenced::Committed(_)));
/// # Ok(()) }).unwrap();
/// ```
pub async fn execute_proven<C, K>(
    container: &ContainerClient<C>,
    batch: &Batch<C>,
    proof: &Proof<K>,
) -> Result<Fenced<BatchOutcome<C>>, Error>
where
    C: Container,
    K: LocatedKey,
    K::Document: MemberOf<C>,
{
    let mut write = ProvenBatch {
        container,
        batch,
        proof,
    };
    execute_fenced(&mut write).await
}

struct ProvenBatch<'a, C, K> {
    container: &'a ContainerClient<C>,
    batch: &'a Batch<C>,
    proof: &'a Proof<K>,
}

impl<C, K> FencedWrite for ProvenBatch<'_, C, K>
where
    C: Container,
    K: LocatedKey,
    K::Document: MemberOf<C>,
{
    type Container = C;
    type Answer = BatchOutcome<C>;
    type Error = Error;

    fn container(&self) -> &ContainerClient<C> {
        self.container
    }

    async fn prepare(&mut self, sends: u32) -> Result<Option<Duration>, Error> {
        // No lock ends while it is sent: a send takes as long as the client allows.
        Ok((sends < MAX_SENDS).then_some(Duration::MAX))
    }

    async fn send(&self) -> Result<BatchOutcome<C>, Error> {
        self.container.execute(self.batch).await
    }

    async fn find_out(&mut self, latest: &ContainerClient<C>) -> Result<Found, Error> {
        let is_done = match self.proof {
            Proof::Created(key) => latest.read(key).await?.is_some(),
            Proof::Deleted(key) => latest.read(key).await?.is_none(),
        };
        Ok(if is_done {
            Found::Done
        } else {
            Found::Unchanged
        })
    }
}
