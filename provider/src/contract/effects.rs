//! Makes transactional activities of a provider.

use std::sync::Arc;

use cdb_client::ContainerClient;
use cdb_coordination::{MessageDocument, Messaging};
use cdb_model::Container;
use cdb_model::container::{Extends, MemberOf};
use duroxide::ActivityContext;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::activity::effects::{
    ActivityError, Effects, Handler, Outgoing, TransactionalActivity, WithMessages,
};
use crate::provider::CosmosDBProvider;
use crate::stored::documents::Durable;

impl CosmosDBProvider {
    /// Returns an activity whose effects are committed by the batch that ends it. The activity may
    /// run more than once; its effects take place once. Register it with the runtime of this
    /// provider. `container` is the one that [`open`](Self::open) returned.
    ///
    /// When an operation is refused at the commit, because a document exists, is missing or has
    /// changed, the body runs again, up to ten times, without an attempt of the activity. A body
    /// that fails has no effects. Input and result are JSON, as with duroxide's `register_typed`.
    ///
    /// ```
    /// use cdb_provider::CosmosDBProvider;
    /// # use cdb_provider::CosmosDBProviderConfig;
    /// use cdb_provider::client::ContainerClient;
    /// use cdb_provider::documents::Durable;
    /// use cdb_provider::model::{Container, Document};
    /// use duroxide::runtime::registry::ActivityRegistry;
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Document, Serialize, Deserialize)]
    /// #[document(type = "receipt", id = "{instance_id}:receipt")]
    /// struct Receipt {
    ///     #[document(partition_key)]
    ///     #[serde(rename = "instanceId")]
    ///     instance_id: String,
    ///     cents: u64,
    /// }
    ///
    /// #[derive(Container)]
    /// enum Shop {
    ///     #[container(extends)]
    ///     Durable(Durable),
    ///     Receipt(Receipt),
    /// }
    ///
    /// fn activities(provider: &CosmosDBProvider, shop: &ContainerClient<Shop>) -> ActivityRegistry {
    ///     let charge = provider.transactional(shop, |ctx, tx, cents: u64| async move {
    ///         let instance_id = ctx.instance_id().to_owned();
    ///         tx.add(Receipt { instance_id, cents }.create())?;
    ///         Ok(cents)
    ///     });
    ///     ActivityRegistry::builder().register("Charge", charge).build()
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let emulator = cdb_emulator::Emulator::start().await?;
    /// # let config = CosmosDBProviderConfig::from_connection_string(&emulator.connection_string())?;
    /// # let (provider, shop) = CosmosDBProvider::open::<Shop>(config).await?;
    /// # assert!(activities(&provider, &shop).has("Charge"));
    /// # Ok(()) }
    /// ```
    ///
    /// A container without documents of its own does not build, because there is nothing to change:
    ///
    /// ```compile_fail,E0080
    /// # use cdb_provider::CosmosDBProvider;
    /// fn activity(provider: &CosmosDBProvider) {
    ///     let container = provider.container();
    ///     provider.transactional(container, |_, _, input: String| async move { Ok(input) });
    /// }
    /// # fn main() { std::hint::black_box(activity as fn(&_)); }
    /// ```
    pub fn transactional<C, In, Out, F, Fut>(
        &self,
        container: &ContainerClient<C>,
        body: F,
    ) -> TransactionalActivity
    where
        C: Extends<Durable>,
        In: DeserializeOwned + Send + 'static,
        Out: Serialize + Send + 'static,
        F: Fn(ActivityContext, Effects<C>, In) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Out, ActivityError>> + Send + 'static,
    {
        self.activity(container.clone(), None, body)
    }

    /// Returns a [`transactional`](Self::transactional) activity that can also send messages to
    /// other partitions, with [`Effects::send`]. The messages are committed with the effects, and
    /// each takes effect once.
    ///
    /// Each receiving partition costs a read before the commit. The delivery of a message costs the
    /// same as that of any message.
    pub fn transactional_with<C, In, Out, F, Fut>(
        &self,
        messaging: &Messaging<C>,
        body: F,
    ) -> TransactionalActivity
    where
        C: Extends<Durable>,
        MessageDocument<C>: MemberOf<C>,
        In: DeserializeOwned + Send + 'static,
        Out: Serialize + Send + 'static,
        F: Fn(ActivityContext, Effects<C, WithMessages>, In) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Out, ActivityError>> + Send + 'static,
    {
        let outbox: Arc<dyn Outgoing<C>> = Arc::new(messaging.clone());
        self.activity(messaging.container().clone(), Some(outbox), body)
    }

    fn activity<C, M, In, Out, F, Fut>(
        &self,
        container: ContainerClient<C>,
        outbox: Option<Arc<dyn Outgoing<C>>>,
        body: F,
    ) -> TransactionalActivity
    where
        C: Extends<Durable>,
        M: 'static,
        In: DeserializeOwned + Send + 'static,
        Out: Serialize + Send + 'static,
        F: Fn(ActivityContext, Effects<C, M>, In) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Out, ActivityError>> + Send + 'static,
    {
        const {
            assert!(
                C::DOCUMENTS.len() > Durable::DOCUMENTS.len(),
                "the container has no documents besides the provider's; add variants for yours"
            );
        }
        let handler = Arc::new(Handler {
            services: self.services.clone(),
            telemetry: self.telemetry.clone(),
            container,
            outbox,
        });
        let body = Arc::new(body);
        Box::new(move |ctx, input| {
            let (handler, body) = (handler.clone(), body.clone());
            Box::pin(async move { handler.run(&*body, ctx, &input).await })
        })
    }
}
