//! A container's definition as infrastructure as code.

mod bicep;
mod resource;
mod symbol;
mod terraform;

use cdb_model::container::ContainerDefinition;
use clap::ValueEnum;

/// An output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// The indexing policy alone, as the service and the portal accept it
    Json,
    /// The container as a Bicep resource
    Bicep,
    /// The container as a resource of Terraform's azurerm provider
    Terraform,
}

impl Format {
    /// Writes the definition of the container `name`.
    pub(crate) fn write(self, name: &str, definition: &ContainerDefinition) -> String {
        match self {
            Self::Json => definition.indexing_policy.to_json_pretty(),
            Self::Bicep => bicep::write(name, definition),
            Self::Terraform => terraform::write(name, definition),
        }
    }
}
