//! Creates or checks a container before anything is written to it.
//!
//! Many production identities may not create containers, or not even read metadata. Each of the
//! three modes does only what its name says, and an error names the missing container or right.

use std::time::Duration;

use cdb_model::Container;
use cdb_model::container::ContainerDefinition;

use crate::account::CosmosClient;
use crate::container::ContainerClient;
use crate::database::config::{Bootstrap, BootstrapConfig, OnDifference};
use crate::database::live::LiveContainer;
use crate::database::{DatabaseClient, Difference};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::check_name;

const READY_ATTEMPTS: u32 = 25;
const READY_DELAY: Duration = Duration::from_millis(200);

impl CosmosClient {
    /// Opens a container, and creates it and its database if they are missing. The same as
    /// [`bootstrap`](DatabaseClient::bootstrap) with [`Bootstrap::CreateIfMissing`].
    ///
    /// # Errors
    /// See [`bootstrap`](DatabaseClient::bootstrap).
    pub async fn open<C: Container>(
        &self,
        database: &str,
        container: &str,
    ) -> Result<ContainerClient<C>> {
        let database = self.database(database);
        database
            .bootstrap(container, Bootstrap::CreateIfMissing)
            .await
    }
}

impl DatabaseClient {
    /// Creates or checks the container `name` as `config` says, and returns a handle to it.
    /// `config` may be just a [`Bootstrap`] mode.
    ///
    /// # Errors
    /// When the container or a right is missing; the message names it.
    /// [`ErrorKind::Configuration`] when the model exceeds a limit of the service, or when the account
    /// has several write regions or a weaker default consistency than Session.
    /// [`ErrorKind::ContainerDiffers`] when the container has another partition key, or other
    /// differences that `config` does not allow.
    pub async fn bootstrap<C: Container>(
        &self,
        name: &str,
        config: impl Into<BootstrapConfig> + Send,
    ) -> Result<ContainerClient<C>> {
        let config = config.into();
        self.open::<C>(name, &C::definition(), &config).await
    }

    /// Creates or checks the container `name` with the definition `model`.
    pub(super) async fn open<C: Container>(
        &self,
        name: &str,
        model: &ContainerDefinition,
        config: &BootstrapConfig,
    ) -> Result<ContainerClient<C>> {
        check_name("database", self.name())?;
        check_name("container", name)?;
        if config.mode == Bootstrap::Skip {
            return Ok(self.container(name));
        }
        model.check_limits().map_err(|exceeded| {
            Error::configuration(format!(
                "container `{name}` cannot store the documents of `{}`: {exceeded}",
                C::NAME
            ))
        })?;
        let account = self.check_account::<C>(name, config).await?;
        match config.mode {
            Bootstrap::CreateIfMissing => self.create_or_verify::<C>(name, model, config).await?,
            Bootstrap::VerifyOnly | Bootstrap::Skip => {
                self.verify::<C>(name, model, config).await?;
            }
        }
        let container = self.container(name);
        // The live container has no others: a difference would have been refused.
        let keys = model.unique_key_policy.unique_keys.clone();
        container.context.unique_keys.check(keys);
        self.probe_latest_committed(&container, account.as_ref())
            .await;
        Ok(container)
    }

    /// Returns the differences between the live container `name` and the model `C`. Changes
    /// nothing.
    ///
    /// # Errors
    /// When the container does not exist or the identity may not read it.
    pub async fn differences<C: Container>(&self, name: &str) -> Result<Vec<Difference>> {
        let live = self.definition::<C>(name).await?;
        Ok(Difference::between(&C::definition(), &live))
    }

    async fn verify<C: Container>(
        &self,
        name: &str,
        model: &ContainerDefinition,
        config: &BootstrapConfig,
    ) -> Result<()> {
        let live = self
            .read_container(name)
            .await
            .map_err(|error| self.with_remedy::<C>(error, name))?;
        self.check::<C>(name, model, &live, config).await
    }

    /// Reads first: a read is cheaper than a refused creation, and usually the container exists.
    async fn create_or_verify<C: Container>(
        &self,
        name: &str,
        model: &ContainerDefinition,
        config: &BootstrapConfig,
    ) -> Result<()> {
        match self.read_container(name).await {
            Ok(live) => return self.check::<C>(name, model, &live, config).await,
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(self.with_remedy::<C>(error, name)),
        }
        let throughput = config.throughput;
        let created = match self.create_container(name, model, throughput).await {
            Err(error) if error.is_not_found() => {
                self.create_database()
                    .await
                    .map_err(|error| self.with_remedy::<C>(error, name))?;
                self.create_container(name, model, throughput).await
            }
            other => other,
        };
        let is_new = match created {
            Ok(_) => true,
            // Another process created it, or an earlier attempt whose answer was lost.
            Err(error) if error.is_conflict() => false,
            Err(error) => return Err(self.with_remedy::<C>(error, name)),
        };
        // Ranges and session tokens of a former container of this name are invalid.
        self.client().forget(self.name(), Some(name));
        self.wait_until_ready::<C>(name).await?;
        if is_new {
            return Ok(());
        }
        self.verify::<C>(name, model, config).await
    }

    /// Lists the ranges until that works. Some replicas may not know a new container for a moment,
    /// and later requests need the ranges anyway.
    async fn wait_until_ready<C: Container>(&self, name: &str) -> Result<()> {
        let container = self.container::<C>(name);
        let mut attempts = 0;
        loop {
            attempts += 1;
            match container.physical_partitions().await {
                Err(error) if error.is_not_found() && attempts < READY_ATTEMPTS => {
                    tokio::time::sleep(READY_DELAY).await;
                }
                other => return other.map(drop),
            }
        }
    }

    async fn check<C: Container>(
        &self,
        name: &str,
        model: &ContainerDefinition,
        live: &LiveContainer,
        config: &BootstrapConfig,
    ) -> Result<()> {
        let differences = Difference::between(model, &live.definition);
        if let Some(fatal) = differences.iter().find(|difference| difference.is_fatal()) {
            return Err(differs(format!(
                "container `{name}` cannot store the documents of `{}`: {fatal}",
                C::NAME
            )));
        }
        let (additions, others): (Vec<_>, Vec<_>) = match config.on_difference {
            OnDifference::Extend => differences.into_iter().partition(Difference::is_addition),
            OnDifference::Warn | OnDifference::Fail => (Vec::new(), differences),
        };
        if !others.is_empty() && config.on_difference == OnDifference::Fail {
            return Err(differs(format!(
                "container `{name}` differs from the model of `{}`: {}",
                C::NAME,
                list(&others)
            )));
        }
        if !others.is_empty() {
            tracing::warn!(
                container = name,
                model = C::NAME,
                differences = list(&others),
                "live container differs from its model"
            );
        }
        if additions.is_empty() {
            return match config.on_difference {
                OnDifference::Extend => {
                    self.wait_until_indexed(name, live.index_progress, config.index_timeout)
                        .await
                }
                OnDifference::Warn | OnDifference::Fail => Ok(()),
            };
        }
        let extended = match config.mode {
            Bootstrap::CreateIfMissing => {
                self.extend_container(name, model, config.index_timeout)
                    .await
            }
            Bootstrap::VerifyOnly | Bootstrap::Skip => {
                Err(differs("`VerifyOnly` changes nothing".to_owned()))
            }
        };
        extended.map_err(|error| not_extended::<C>(error, name, &additions))
    }
}

/// Adds to the error of an extension what a user or administrator has to do.
fn not_extended<C: Container>(error: Error, name: &str, additions: &[Difference]) -> Error {
    let is_vector = |added: &Difference| matches!(added, Difference::Vector { .. });
    match error.kind() {
        // Microsoft's pages differ: index-policy calls vectors immutable, vector-search does not.
        ErrorKind::BadRequest if additions.iter().any(is_vector) => error.with_context(&format!(
            "vectors cannot be added to container `{name}`; create another container for `{}`",
            C::NAME
        )),
        ErrorKind::Forbidden | ErrorKind::ContainerDiffers => differs(format!(
            "container `{name}` lacks what `{}` needs; an administrator has to add: {} ({error})",
            C::NAME,
            list(additions)
        )),
        _ => error,
    }
}

fn list(differences: &[Difference]) -> String {
    let texts: Vec<String> = differences.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

fn differs(message: String) -> Error {
    Error::new(ErrorKind::ContainerDiffers, message)
}
