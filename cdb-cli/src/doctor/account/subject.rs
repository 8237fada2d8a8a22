//! The account that is asked.

use cdb_client::CosmosClient;

/// The clients of one account.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Subject {
    pub(super) client: CosmosClient,
    pub(super) satellite: Option<CosmosClient>,
    pub(super) entra: Option<CosmosClient>,
}

impl Subject {
    /// An account without the questions that are asked on request.
    pub fn new(client: CosmosClient) -> Self {
        Self {
            client,
            satellite: None,
            entra: None,
        }
    }

    /// Also sends writes to the endpoint of this client, which is in a region for reads.
    #[must_use]
    pub fn with_satellite(mut self, client: CosmosClient) -> Self {
        self.satellite = Some(client);
        self
    }

    /// Also asks what the Entra ID identity of this client may do.
    #[must_use]
    pub fn with_entra(mut self, client: CosmosClient) -> Self {
        self.entra = Some(client);
        self
    }
}
