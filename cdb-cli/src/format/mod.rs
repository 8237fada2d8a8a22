//! A container's definition in the languages that infrastructure is written in.

mod arm;
mod bicep;
mod terraform;

use cdb_model::ContainerDefinition;
use clap::ValueEnum;

/// The version of the resource provider that ARM and Bicep name.
const API_VERSION: &str = "2024-11-15";

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// The indexing policy alone, as the service and the portal take it
    Json,
    /// The container as a Bicep resource
    Bicep,
    /// The container as a resource of Terraform's azurerm provider
    Terraform,
    /// The container as an ARM template
    Arm,
}

impl Format {
    /// Whether what is written is JSON.
    pub(crate) fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::Arm)
    }

    /// The definition of the container `name`.
    pub(crate) fn write(self, name: &str, definition: &ContainerDefinition) -> String {
        match self {
            Self::Json => definition.indexing_policy.to_json_pretty(),
            Self::Bicep => bicep::write(name, definition),
            Self::Terraform => terraform::write(name, definition),
            Self::Arm => arm::write(name, definition),
        }
    }
}

/// A name that Bicep and Terraform take for a symbol.
fn symbol(name: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let symbol: String = name.chars().map(word).collect();
    if symbol.starts_with(|c: char| c.is_ascii_alphabetic()) {
        symbol
    } else {
        format!("container_{symbol}")
    }
}
