//! Typed containers against scripts: requests, their order, and results.

mod answering;
mod background;
mod batch;
mod feed;
pub(crate) mod fixture;
mod overload;
mod point;
mod prefix;
mod query;
mod regions;
mod shop;
mod update;
