//! Requests for databases and containers.
//!
//! These share a small budget of the account, so data operations must not depend on them:
//! <https://learn.microsoft.com/azure/cosmos-db/concepts-limits>.

use cdb_model::Container;
use cdb_model::container::ContainerDefinition;
use http::Method;
use serde::Serialize;

use crate::database::live::LiveContainer;
use crate::database::{DatabaseClient, Throughput};
use crate::error::{ErrorKind, RequestKind, Result};
use crate::protocol::{Accepted, JSON, Repeat, Request, Resource, check_name, header};

#[derive(Serialize)]
struct NewDatabase<'a> {
    id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewContainer<'a> {
    id: &'a str,
    #[serde(flatten)]
    definition: &'a ContainerDefinition,
}

impl DatabaseClient {
    /// Deletes this database and everything in it.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) when it does not exist.
    pub async fn delete(&self) -> Result<()> {
        check_name("database", self.name())?;
        let resource = Resource::database(self.name());
        let request = Request::new(RequestKind::DeleteDatabase, Method::DELETE, resource);
        let accepted = self.send(&request.repeat(Repeat::Always)).await;
        self.client().forget(self.name(), None);
        match accepted {
            Err(error) if error.is_missing_after_doubt() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Returns the progress of the index of the container `name`, in percent. Below 100 after a
    /// change of the policy, queries may not use the new index. `None` when the service does not
    /// report it.
    ///
    /// # Errors
    /// When the container does not exist or the identity may not read it.
    pub async fn indexing_progress(&self, name: &str) -> Result<Option<u8>> {
        Ok(LiveContainer::index_progress_of(
            &self.request_container(name).await?,
        ))
    }

    /// Returns the live definition of the container `name`, with the members that a model knows. It
    /// may differ from the model `C`.
    ///
    /// # Errors
    /// When the container does not exist or the identity may not read it.
    pub async fn definition<C: Container>(&self, name: &str) -> Result<ContainerDefinition> {
        let live = self.read_container(name).await;
        live.map(|live| live.definition)
            .map_err(|error| match error.kind() {
                // The caller opens nothing, so the remedies of opening do not fit.
                ErrorKind::NotFound => error.with_context(&format!(
                    "container `{name}` of database `{}` does not exist",
                    self.name()
                )),
                _ => self.with_remedy::<C>(error, name),
            })
    }

    /// Returns the resource of the container `name`, after checking the names.
    pub(super) fn container_resource(&self, name: &str) -> Result<Resource> {
        check_name("database", self.name())?;
        check_name("container", name)?;
        Ok(Resource::container(self.name(), name))
    }

    pub(super) async fn read_container(&self, name: &str) -> Result<LiveContainer> {
        LiveContainer::of(&self.request_container(name).await?)
    }

    async fn request_container(&self, name: &str) -> Result<Accepted> {
        let resource = self.container_resource(name)?;
        let request = Request::new(RequestKind::ReadContainer, Method::GET, resource)
            .header(header::POPULATE_QUOTA, "True");
        self.send(&request).await
    }

    pub(super) async fn create_database(&self) -> Result<()> {
        let body = NewDatabase { id: self.name() };
        let request = Request::new(
            RequestKind::CreateDatabase,
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

    pub(super) async fn create_container(
        &self,
        name: &str,
        definition: &ContainerDefinition,
        throughput: Throughput,
    ) -> Result<Accepted> {
        let body = NewContainer {
            id: name,
            definition,
        };
        let resource = Resource::containers(self.name());
        let request = Request::new(RequestKind::CreateContainer, Method::POST, resource)
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
