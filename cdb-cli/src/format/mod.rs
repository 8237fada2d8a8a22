//! A container's definition as infrastructure as code.

mod arm;
mod bicep;
mod symbol;
mod terraform;

use cdb_model::ContainerDefinition;
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
    /// The container as an ARM template
    Arm,
}

impl Format {
    /// Returns `true` if the format is JSON.
    pub(crate) fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::Arm)
    }

    /// Writes the definition of the container `name`.
    pub(crate) fn write(self, name: &str, definition: &ContainerDefinition) -> String {
        match self {
            Self::Json => definition.indexing_policy.to_json_pretty(),
            Self::Bicep => bicep::write(name, definition),
            Self::Terraform => terraform::write(name, definition),
            Self::Arm => arm::write(name, definition),
        }
    }
}
