//! Requests and answers of the service, as its REST protocol writes them.

mod accepted;
pub(crate) mod header;
mod operation_result;
mod outcome;
mod repeat;
mod request;
mod resource;
mod response;
mod route;

pub(crate) use accepted::Accepted;
pub use operation_result::OperationResult;
pub(crate) use outcome::Outcome;
pub(crate) use repeat::Repeat;
pub(crate) use request::{JSON, Request};
pub(crate) use resource::{Resource, check_name};
pub(crate) use response::{Response, without_nulls};
pub(crate) use route::Route;
