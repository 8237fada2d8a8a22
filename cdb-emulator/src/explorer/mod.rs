//! `/_explorer/`: a page that shows the account's content and the cost of queries in a browser on
//! this machine.
//!
//! The program serves the page, its script and style, and two typed endpoints. The page is
//! read-only: its queries run like those of other clients, but need no signature and are not
//! subject to faults.

mod plan;
mod query;
mod routes;
mod tree;

pub(crate) use routes::respond;
