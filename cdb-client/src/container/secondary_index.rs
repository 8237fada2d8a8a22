//! Global secondary indexes: containers that the service derives from a source container.

use cdb_model::{Container, IndexOf};

use crate::client::DatabaseClient;
use crate::container::bootstrap::{Bootstrap, BootstrapConfig};
use crate::container::handle::ContainerClient;
use crate::error::{Error, Result};

impl DatabaseClient {
    /// Creates or checks the global secondary index `name` of `source` as `config` says, and returns
    /// a handle to it. The source has to exist. The service fills the index in the background, so
    /// queries may miss documents of the source for some time, also later after each write.
    ///
    /// An account needs continuous backups and the feature "Global Secondary Index". The service
    /// requires [`Throughput::Autoscale`](crate::Throughput::Autoscale), except in serverless
    /// accounts.
    ///
    /// ```
    /// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
    /// use cdb_client::{Bootstrap, BootstrapConfig, ContainerClient, DatabaseClient, Throughput};
    /// use cdb_model::{Container, Document, Projection, Query};
    /// use serde::{Deserialize, Serialize};
    /// use shop::{Order, Shop};
    ///
    /// #[derive(Document, Projection, Serialize, Deserialize)]
    /// #[projection(of = Order)]
    /// #[document(type = "order", id = "{customer}:order:{number}")]
    /// struct OrderByStatus {
    ///     #[document(partition_key)]
    ///     status: String,
    ///     customer: String,
    ///     number: u64,
    /// }
    ///
    /// #[derive(Container)]
    /// #[container(index_of = Shop, partition_key = "/status")]
    /// enum ShopByStatus {
    ///     Order(OrderByStatus),
    /// }
    ///
    /// async fn open_orders(database: &DatabaseClient, shop: &ContainerClient<Shop>) -> cdb_client::Result<usize> {
    ///     let config = BootstrapConfig::from(Bootstrap::CreateIfMissing)
    ///         .with_throughput(Throughput::Autoscale(1_000));
    ///     let by_status: ContainerClient<ShopByStatus> =
    ///         database.bootstrap_index("orders-by-status", shop, config).await?;
    ///     let open = Query::<OrderByStatus>::in_partition("open");
    ///     Ok(by_status.query(open).all().await?.len())
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`bootstrap`](Self::bootstrap). [`ErrorKind::ContainerMismatch`](crate::ErrorKind) when the
    /// container is not an index of `source`.
    pub async fn bootstrap_index<C, Source>(
        &self,
        name: &str,
        source: &ContainerClient<Source>,
        config: impl Into<BootstrapConfig> + Send,
    ) -> Result<ContainerClient<C>>
    where
        Source: Container,
        C: IndexOf<Source>,
    {
        let config = config.into();
        if source.database() != self.name() {
            return Err(Error::configuration(format!(
                "global secondary index `{name}` is in database `{}`, but its source is in database `{}`; an index and \
                 its source are in one database",
                self.name(),
                source.database()
            )));
        }
        let mut model = C::definition();
        if let Some(index) = &mut model.index_of {
            index.source_collection_id = Some(source.name().to_owned());
            if config.mode == Bootstrap::CreateIfMissing {
                // The service finds the source by its resource id, as for the vendor's clients.
                let live = self.read_container(source.name()).await;
                let live =
                    live.map_err(|error| self.with_remedy::<Source>(error, source.name()))?;
                index.source_collection_rid = Some(live.rid);
            }
        }
        self.open::<C>(name, &model, &config).await
    }
}
