//! A database of an account, and the handles to its containers.

use cdb_model::Container;

use crate::account::CosmosClient;
use crate::container::ContainerClient;

/// A database of an account.
#[derive(Clone, Debug)]
pub struct DatabaseClient {
    client: CosmosClient,
    name: String,
}

impl CosmosClient {
    /// Returns a handle to a database of the account. Sends nothing.
    pub fn database(&self, name: impl Into<String>) -> DatabaseClient {
        DatabaseClient {
            client: self.clone(),
            name: name.into(),
        }
    }
}

impl DatabaseClient {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a handle to a container whose documents are those of `C`. Sends nothing and checks
    /// nothing; [`bootstrap`](Self::bootstrap) does.
    pub fn container<C: Container>(&self, name: &str) -> ContainerClient<C> {
        let context = self.client.context(&self.name, name);
        if C::DOCUMENTS
            .iter()
            .any(|shape| !shape.unique_keys.is_empty())
        {
            context
                .unique_keys
                .declare(|| C::definition().unique_key_policy.unique_keys);
        }
        ContainerClient::new(context)
    }

    pub(crate) fn client(&self) -> &CosmosClient {
        &self.client
    }
}
