//! `/_explorer/`: a page that shows the account's content and the cost of queries in a browser on
//! this machine.
//!
//! The program serves the page, its script and style, and three typed endpoints. The queries and
//! changes of the page run like those of other clients, but need no signature and are not subject
//! to faults; a change names the version that the page shows.

mod document;
mod plan;
mod query;
mod routes;
mod samples;
mod system;
mod tree;

pub(crate) use routes::serve_explorer;
