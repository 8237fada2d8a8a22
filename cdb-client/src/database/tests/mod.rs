//! The opening and changes of containers against scripts: requests, their order, and results.

mod bootstrap;
mod opening;
