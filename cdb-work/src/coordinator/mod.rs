//! The entry point: [`WorkCoordinator`](crate::WorkCoordinator), and its operations for administrators.

pub(crate) mod admin;
pub(crate) mod handle;
pub(crate) mod operate;
