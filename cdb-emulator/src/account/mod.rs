//! What the service knows of an account beside its data: the settings, who may do what, regions and
//! replicas, and the budgets of its requests.

pub(crate) mod auth;
mod error;
mod index_build;
mod metadata_budget;
mod regions;
mod replicas;
mod request_log;
mod service;
pub(crate) mod session;
mod settings;
mod throughput;

pub use auth::entra::DataRole;
pub use auth::signature::WELL_KNOWN_KEY;
pub use error::EmulatorError;
pub use index_build::IndexBuild;
pub use regions::Failover;
pub use replicas::ReplicaLag;
pub use request_log::RequestLog;
pub use session::Consistency;
pub use settings::{Settings, UniqueKeyAnswer};

pub(crate) use regions::Regions;
pub(crate) use replicas::{Replicas, View};
pub(crate) use request_log::ResponseSummary;
pub(crate) use service::{Account, Service};
pub(crate) use settings::Limits;
pub(crate) use throughput::{RequestClass, Ticket};
