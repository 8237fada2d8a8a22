//! Intents that were given up: for people to look at, and to have tried again.

use cdb_model::{Patch, Query, Stored};
use duroxide::providers::ProviderError;

use crate::documents::{NEVER, OutboxIntent};
use crate::error::provider_error;
use crate::provider::CosmosDBProvider;

impl CosmosDBProvider {
    /// Messages between instances that were refused so often that they were given up, at most `most` of them. Each says
    /// why in `failure`. They stay until [`deliver_again`](Self::deliver_again), or until their instance is deleted.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn undeliverable(
        &self,
        most: u32,
    ) -> Result<Vec<Stored<OutboxIntent>>, ProviderError> {
        let query = Query::<OutboxIntent>::across_partitions()
            .filter(OutboxIntent::CREATED_AT.ge(NEVER))
            .order_by(OutboxIntent::BY_CREATED.asc())
            .top(most);
        let found = self.container().query(query).all().await;
        found.map_err(|error| provider_error("undeliverable", &error))
    }

    /// Has messages that were given up tried again, as if they were new. Whatever of them had arrived does not arrive
    /// again, for a day after it was received.
    ///
    /// # Errors
    /// When somebody else has done it, or the service refuses.
    pub async fn deliver_again(
        &self,
        given_up: &Stored<OutboxIntent>,
    ) -> Result<(), ProviderError> {
        let patch = Patch::new()
            .set(OutboxIntent::ATTEMPT_COUNT, 0)
            .set(OutboxIntent::CREATED_AT, self.container().now());
        let written = self.container().patch_stored(given_up, &patch).await;
        written
            .map(drop)
            .map_err(|error| provider_error("deliver_again", &error))
    }
}
