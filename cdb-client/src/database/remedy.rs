//! What a user or administrator has to do when a container cannot be opened.

use std::fmt;

use cdb_model::Container;
use cdb_model::container::ContainerDefinition;

use crate::database::DatabaseClient;
use crate::error::{Error, ErrorKind, ResponseStatus};

impl DatabaseClient {
    /// Adds to an error what a user or administrator has to do.
    pub(super) fn with_remedy<C: Container>(&self, error: Error, name: &str) -> Error {
        let (database, action) = (self.name(), Action(&error));
        let remedy = match error.kind() {
            ErrorKind::NotFound => format!(
                "container `{name}` of database `{database}` does not exist; create it, or bootstrap with `CreateIfMissing`"
            ),
            ErrorKind::Forbidden => {
                let right = missing_right(error.status(), &C::definition());
                format!(
                    "this identity may not {action} (container `{name}` of database `{database}`): {right}"
                )
            }
            ErrorKind::Unauthorized => format!(
                "container `{name}` cannot be checked: the account refuses the key or token"
            ),
            _ => return error,
        };
        error.with_context(&remedy)
    }
}

/// Returns what an administrator has to do. Sub-statuses of roles: azure_data_cosmos_driver
/// `cosmos_status.rs`.
fn missing_right(status: Option<ResponseStatus>, definition: &ContainerDefinition) -> String {
    match status {
        Some(ResponseStatus::NOT_FOR_DATA_ROLES) => format!(
            "no data-plane role allows that, so an administrator has to create database and container with the portal, ARM \
             or the command line: partition key {}, default time to live {}, and the model's indexing policy",
            definition.partition_key.paths.join(", "),
            definition.default_ttl.map_or("off".to_owned(), |ttl| ttl.to_string()),
        ),
        Some(ResponseStatus::NO_ROLE_FOR_METADATA) => "an administrator has to assign it a data-plane role, such as `Cosmos DB \
             Built-in Data Contributor`; if it must not read metadata, bootstrap with `Skip`"
            .to_owned(),
        _ => "create it with another identity, or grant the right; bootstrap with `VerifyOnly` if this identity must not \
              create, with `Skip` if it must not read metadata either"
            .to_owned(),
    }
}

/// The failed operation, for an error text.
struct Action<'a>(&'a Error);

impl fmt::Display for Action<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.call() {
            Some(call) => call.operation.fmt(f),
            None => f.write_str("do this"),
        }
    }
}
