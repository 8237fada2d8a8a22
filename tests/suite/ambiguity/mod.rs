//! Requests that lose their answer, are lost, or get an error after their effect: every write finds
//! out whether it took effect, so the result is the same.

pub(crate) mod each_write;
mod every_request;
mod list;
mod opening;
mod scenario;
