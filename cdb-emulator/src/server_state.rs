//! The state that all connections share.

use std::sync::Arc;

use crate::admission::Admission;
use crate::fault::{Faults, Timer};
use crate::service::Service;
use crate::tls::Security;

/// The service with the settings of its connections.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) service: Arc<Service>,
    pub(crate) faults: Faults,
    pub(crate) timer: Timer,
    pub(crate) security: Security,
    pub(crate) admission: Admission,
}
