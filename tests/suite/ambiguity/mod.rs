//! Did it happen? Every write has an answer to that: whichever request loses its answer, is lost itself, or is answered
//! with an error after its effect, the outcome is the same.

pub(crate) mod each_write;
mod every_request;
mod list;
mod opening;
mod scenario;
