//! The typed container against scripts: what is sent, in which order, and what comes back.

mod bootstrap;
mod feed;
mod query;
mod shelf;
