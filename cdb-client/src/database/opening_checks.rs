//! What opening a container checks beside its definition: the write regions and the consistency of
//! the account, and whether the gateway reads the latest committed state when asked to.

use std::time::Duration;

use cdb_model::Container;
use tokio::time::timeout;

use crate::container::{ContainerClient, if_permitted};
use crate::database::{BootstrapConfig, DatabaseClient};
use crate::error::Result;
use crate::regions::Account;

/// How long the probe may delay the opening.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

impl DatabaseClient {
    /// Refuses an account without session tokens, and one with several write regions unless `config`
    /// allows it. Returns the account document, or `None` for an identity that may not read it.
    pub(super) async fn check_account<C: Container>(
        &self,
        name: &str,
        config: &BootstrapConfig,
    ) -> Result<Option<Account>> {
        let account = self.client().account().await;
        let account = if_permitted(account).map_err(|error| self.with_remedy::<C>(error, name))?;
        let Some(account) = account else {
            return Ok(None);
        };
        if !config.several_write_regions {
            account.refuse_several_write_regions(name)?;
        }
        account.refuse_weak_consistency(name)?;
        Ok(Some(account))
    }

    /// Warns if the gateway ignores the request for the latest committed state. Reads on loopback
    /// are not probed: the charges of an emulator say nothing about the service.
    pub(super) async fn probe_latest_committed<C: Container>(
        &self,
        container: &ContainerClient<C>,
        account: Option<&Account>,
    ) {
        if account.is_none_or(Account::reads_from_quorum) || self.client().pipeline().is_local() {
            return;
        }
        let probe = timeout(PROBE_TIMEOUT, container.honours_latest_committed());
        match probe.await {
            Ok(Ok(Some(false))) => tracing::warn!(
                container = container.name(),
                "gateway seems to ignore `x-ms-cosmos-read-consistency-strategy`: a read of the latest committed \
                 state is charged like a session read; it may miss the last writes of other processes; set the \
                 default consistency of the account to Bounded Staleness to exclude that"
            ),
            outcome => tracing::debug!(?outcome, "reads of the latest committed state are probed"),
        }
    }
}
