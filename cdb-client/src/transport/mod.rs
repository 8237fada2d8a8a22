//! The one seam between this client and the network.

mod loopback_certificate;
mod network;
mod transport_trait;

pub(crate) use network::{Network, ServerProof};
pub use transport_trait::{Delivery, HttpRequest, HttpResponse, Transport, TransportError};
