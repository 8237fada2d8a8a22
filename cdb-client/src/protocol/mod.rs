//! Requests and answers of the service, as its REST protocol writes them.
//!
//! A request also says what sending it needs: `Route`, which regions can serve it, and `Repeat`, whether it
//! may be sent again. `Outcome` is how one attempt ended, `Accepted` the accepted answer of the whole call.

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
