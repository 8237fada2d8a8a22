//! The requests about databases and containers themselves.
//!
//! They share a small budget of the account (protocol.md 3), so nothing here belongs on the path of data operations.

use cdb_model::{Container, ContainerDefinition};
use http::Method;
use serde::{Deserialize, Serialize};

use crate::client::DatabaseClient;
use crate::container::bootstrap::Throughput;
use crate::container::point::JSON;
use crate::error::Result;
use crate::header;
use crate::operation::OperationKind;
use crate::request::Request;
use crate::resource::{Resource, check_name};
use crate::retry::{Accepted, Repeat};

#[derive(Serialize)]
struct NewDatabase<'a> {
    id: &'a str,
}

#[derive(Serialize)]
struct NewContainer<'a> {
    id: &'a str,
    #[serde(flatten)]
    definition: &'a ContainerDefinition,
}

/// A container as the service describes it: the parts we know, as we know them.
#[derive(Debug, Deserialize)]
struct LiveContainer {
    #[serde(flatten)]
    definition: ContainerDefinition,
}

impl DatabaseClient {
    /// Deletes this database and everything in it.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) when there is none.
    pub async fn delete(&self) -> Result<()> {
        check_name("database", self.name())?;
        let resource = Resource::database(self.name());
        let request = Request::new(OperationKind::DeleteDatabase, Method::DELETE, resource);
        let accepted = self.send(&request.repeat(Repeat::Always)).await;
        self.client().forget(self.name(), None);
        accepted.map(drop)
    }

    /// How far the index of the container `name` follows its policy, in percent. Below 100 after a change of the policy,
    /// queries may miss the new index. `None` when the service does not tell.
    ///
    /// # Errors
    /// When the container does not exist or may not be read.
    pub async fn indexing_progress(&self, name: &str) -> Result<Option<u8>> {
        let resource = self.container_resource(name)?;
        let request = Request::new(OperationKind::ReadContainer, Method::GET, resource)
            .header(header::POPULATE_QUOTA, "True");
        let accepted = self.send(&request).await?;
        Ok(accepted
            .header(&header::INDEX_PROGRESS)
            .and_then(|percent| percent.parse().ok()))
    }

    /// The definition of the container `name` as it is at the service, where its model `C` may differ: the parts that a model
    /// knows.
    ///
    /// # Errors
    /// When it does not exist or may not be read.
    pub async fn definition<C: Container>(&self, name: &str) -> Result<ContainerDefinition> {
        self.read_container(name)
            .await
            .map_err(|error| self.explained::<C>(error, name))
    }

    /// The container `name`, where that and the database's name can stand in a path.
    pub(super) fn container_resource(&self, name: &str) -> Result<Resource> {
        check_name("database", self.name())?;
        check_name("container", name)?;
        Ok(Resource::container(self.name(), name))
    }

    pub(super) async fn read_container(&self, name: &str) -> Result<ContainerDefinition> {
        let resource = self.container_resource(name)?;
        let request = Request::new(OperationKind::ReadContainer, Method::GET, resource);
        let live: LiveContainer = self.send(&request).await?.json()?;
        Ok(live.definition)
    }

    pub(super) async fn create_database(&self) -> Result<()> {
        let body = NewDatabase { id: self.name() };
        let request = Request::new(
            OperationKind::CreateDatabase,
            Method::POST,
            Resource::databases(),
        )
        .repeat(Repeat::Always)
        .json(JSON, &body)?;
        match self.send(&request).await {
            Err(error) if error.is_conflict() => Ok(()),
            other => other.map(drop),
        }
    }

    pub(super) async fn create_container<C: Container>(
        &self,
        name: &str,
        throughput: Throughput,
    ) -> Result<Accepted> {
        let body = NewContainer {
            id: name,
            definition: &C::definition(),
        };
        let resource = Resource::containers(self.name());
        let request = Request::new(OperationKind::CreateContainer, Method::POST, resource)
            .repeat(Repeat::Always)
            .json(JSON, &body)?;
        let request = match throughput {
            Throughput::Unspecified => request,
            Throughput::Manual(units) => {
                request.header_value(header::THROUGHPUT, &units.to_string())?
            }
            Throughput::Autoscale(most) => {
                request.header_value(header::AUTOPILOT, &format!("{{\"maxThroughput\":{most}}}"))?
            }
        };
        self.send(&request).await
    }

    pub(super) async fn send(&self, request: &Request) -> Result<Accepted> {
        self.client().pipeline().send(request, None).await
    }
}
