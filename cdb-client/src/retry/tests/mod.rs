//! The retry loop against scripts.

mod failover;
mod pipeline;
mod rights;
