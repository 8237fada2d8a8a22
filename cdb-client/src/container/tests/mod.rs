//! The typed container against scripts: what is sent, in which order, and what comes back.

mod batch;
mod bootstrap;
mod feed;
mod fixture;
mod point;
mod query;
mod shop;
