//! Sends an HTTP request once: the trait, the network with its TLS, and the transports of tests.

mod contract;
pub(crate) mod endpoint;
#[cfg(all(feature = "__rustls", not(feature = "native-tls")))]
mod loopback_certificate;
mod network;
#[cfg(any(test, feature = "test-support"))]
mod script;
#[cfg(any(test, feature = "test-support"))]
mod simulated_time;
mod tls;

/// Crates needed to implement [`Transport`] and [`Credential`](crate::credential::Credential), in the
/// versions that this crate uses.
#[doc(no_inline)]
pub use {async_trait::async_trait, bytes, http};

pub use contract::{Delivery, HttpRequest, HttpResponse, Transport, TransportError};
pub(crate) use network::Network;
#[cfg(any(test, feature = "test-support"))]
pub use script::{Script, Step};
#[cfg(any(test, feature = "test-support"))]
pub use simulated_time::SimulatedTime;
