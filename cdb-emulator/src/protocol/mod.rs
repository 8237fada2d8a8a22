//! Requests and responses in the service's form: resources, headers, errors, binary JSON.

pub(crate) mod binary_json;
mod error;
mod operation;
mod request;
mod response;
pub(crate) mod rid;
pub(crate) mod route;

pub use operation::OperationKind;

pub(crate) use error::ServiceError;
pub(crate) use request::{Needs, Request};
pub(crate) use response::{JSON, REFUSED, Response};
pub(crate) use route::{ContainerName, Resource, Scripts, flag, header};
