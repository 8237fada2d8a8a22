//! The functions of the query language, in tables by family: name, number of arguments,
//! implementation.
//!
//! An argument of a wrong type gives undefined, as on the service. Reference:
//! <https://learn.microsoft.com/azure/cosmos-db/nosql/query/system-functions>.

mod aggregate;
mod array;
mod call;
mod date;
mod integer;
mod math;
mod search;
#[cfg(feature = "spatial")]
mod spatial;
mod string;
mod table;
mod text_json;
mod types;

pub(crate) use aggregate::Aggregate;
pub(crate) use call::Function;
pub(super) use table::{NamedFunction, find};
