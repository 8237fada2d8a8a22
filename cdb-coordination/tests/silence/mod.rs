//! A network on which a physical partition answers no request. Time is simulated.

mod partition;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use cdb_client::{
    HttpRequest, HttpResponse, SimulatedTime, Transport, TransportError, async_trait,
};

pub(crate) use partition::Silence;

/// The network of one process.
#[derive(Clone, Debug)]
pub(crate) struct Silent {
    network: SimulatedTime,
    silence: Arc<Mutex<Silence>>,
    /// Whether the requests without an answer are executed.
    pub(crate) executes: Arc<AtomicBool>,
}

impl Silent {
    pub(crate) fn new(network: SimulatedTime) -> Self {
        Self {
            network,
            silence: Arc::default(),
            executes: Arc::default(),
        }
    }

    pub(crate) fn set(&self, silence: Silence) {
        *self.silence.lock().expect("no holder panics") = silence;
    }
}

#[async_trait]
impl Transport for Silent {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let silence = self.silence.lock().expect("no holder panics").clone();
        if silence.concerns(&request) {
            if self.executes.load(Ordering::SeqCst) {
                self.network.send(request.clone()).await?;
            }
            std::future::pending::<()>().await;
        }
        self.network.send(request).await
    }
}
