//! What a container needs of its account: one region for writes, session tokens that count, and a
//! gateway that reads the latest committed state when asked to.

use cdb_model::value::PartitionKeyValue;
use cdb_model::{Container, PartitionKey};
use http::Method;

use crate::container::handle::ContainerClient;
use crate::error::{Error, ErrorKind, RequestKind, Result};
use crate::protocol::Request;
use crate::regions::Account;

/// The id and partition key that the probe reads. The item does not exist.
const PROBE: &str = "cdb:probe";
/// A read from two replicas costs twice a read from one; the service rounds charges.
const QUORUM_RATIO: f64 = 1.5;

impl Account {
    pub(crate) fn refuse_several_write_regions(&self, container: &str) -> Result<()> {
        if !self.has_several_write_regions {
            return Ok(());
        }
        let regions: Vec<&str> = self.write_regions.iter().map(|r| r.name.as_str()).collect();
        Err(Error::configuration(format!(
            "container `{container}` cannot be opened: its account has several write regions ({}), and two of them could \
             accept conflicting conditional writes; keep one write region (`az cosmosdb update \
             --enable-multiple-write-locations false`), or bootstrap with `with_several_write_regions(true)` if no \
             write depends on an ETag or a condition",
            regions.join(", ")
        )))
    }

    /// Source: azure_data_cosmos_driver, `is_session_effective`: session tokens count only if the
    /// default consistency of the account is Session; stronger levels need none.
    pub(crate) fn refuse_weak_consistency(&self, container: &str) -> Result<()> {
        let level = self.consistency();
        if !matches!(level, "Eventual" | "ConsistentPrefix") {
            return Ok(());
        }
        Err(Error::configuration(format!(
            "container `{container}` cannot be opened: the default consistency of its account is {level}, which ignores \
             session tokens, so a process may not see its own writes; use Session or a stronger level (`az cosmosdb \
             update --default-consistency-level Session`)"
        )))
    }
}

/// Returns the account document; `None` for an identity that may not read it: a resource token, a
/// role without metadata, a proxy for containers only.
pub(crate) fn if_permitted(account: Result<Account>) -> Result<Option<Account>> {
    match account {
        Ok(account) => Ok(Some(account)),
        Err(error) if fails_opening(&error) => Err(error),
        Err(error) => {
            tracing::info!(%error, "account document cannot be read; its write regions are not checked");
            Ok(None)
        }
    }
}

/// Whether the requests that follow would fail for the same reason.
fn fails_opening(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Configuration | ErrorKind::Untrusted => true,
        // Without a call, the credential has nothing for the account, such as a resource token.
        ErrorKind::Unauthorized => error.call().is_some(),
        _ => error.is_transient(),
    }
}

impl<C: Container> ContainerClient<C> {
    /// Refuses an account with several write regions or a weaker default consistency than Session, as
    /// [`bootstrap`](crate::DatabaseClient::bootstrap) does. For a container that was opened
    /// without it, or with [`Bootstrap::Skip`](crate::Bootstrap::Skip). Checks nothing for an
    /// identity that may not read the account document.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] when the account is refused. Fails too when the account does not
    /// answer, or refuses the key or token.
    pub async fn check_account(&self) -> Result<()> {
        let request = Request::for_account();
        let pipeline = &self.context.pipeline;
        let read = pipeline.send(&request, None).await;
        let account: Result<Account> = read.and_then(|accepted| accepted.metadata());
        let Some(account) = if_permitted(account)? else {
            return Ok(());
        };
        pipeline.learn(&account);
        account.refuse_several_write_regions(&self.context.container)?;
        account.refuse_weak_consistency(&self.context.container)
    }

    /// Returns whether the gateway reads from a quorum for
    /// [`latest_committed`](Self::latest_committed): such a read then costs about twice a session
    /// read. Sends one read of each kind, of an item that does not exist. `None` when the service
    /// reports no charges, as an emulator may, or when the account reads from a quorum anyway.
    ///
    /// # Errors
    /// When the container cannot be read.
    pub async fn honours_latest_committed(&self) -> Result<Option<bool>> {
        let session = Self::new(self.context.clone()).probe_charge().await?;
        let latest = self.latest_committed().probe_charge().await?;
        Ok((session > 0.0).then_some(latest >= session * QUORUM_RATIO))
    }

    async fn probe_charge(&self) -> Result<f64> {
        let level = |_: &&str| PartitionKeyValue::String(PROBE.to_owned());
        let key = PartitionKey::from_values(C::PARTITION_KEY.iter().map(level).collect());
        let item = self.context.resource.item(PROBE)?;
        let request = Request::new(RequestKind::Read, Method::GET, item).in_partition(&key)?;
        match self.context.send(&self.consistent(request)).await {
            Ok(accepted) => Ok(accepted.call.charge),
            Err(error) if error.is_not_found() => Ok(error.call().map_or(0.0, |call| call.charge)),
            Err(error) => Err(error),
        }
    }
}
