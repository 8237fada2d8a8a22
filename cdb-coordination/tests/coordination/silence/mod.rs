//! A network on which a physical partition answers no request, or answers late. Time is simulated.

mod partition;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_client::transport::{
    HttpRequest, HttpResponse, SimulatedTime, Transport, TransportError, async_trait,
};

pub(crate) use partition::{Silence, is_query};

/// The network of one process.
#[derive(Clone, Debug)]
pub(crate) struct Silent {
    network: SimulatedTime,
    silence: Arc<Mutex<Silence>>,
    /// The time after which the requests are sent; never if `None`.
    delay: Arc<Mutex<Option<Duration>>>,
    /// Whether the requests without an answer are executed.
    pub(crate) executes: Arc<AtomicBool>,
}

impl Silent {
    pub(crate) fn new(network: SimulatedTime) -> Self {
        Self {
            network,
            silence: Arc::default(),
            delay: Arc::default(),
            executes: Arc::default(),
        }
    }

    pub(crate) fn set(&self, silence: Silence) {
        *self.delay.lock().expect("no holder panics") = None;
        *self.silence.lock().expect("no holder panics") = silence;
    }

    /// Sends the requests late that would be silent.
    pub(crate) fn slow_down(&self, silence: Silence, delay: Duration) {
        self.set(silence);
        *self.delay.lock().expect("no holder panics") = Some(delay);
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
            let delay = *self.delay.lock().expect("no holder panics");
            match delay {
                Some(delay) => tokio::time::sleep(delay).await,
                None => std::future::pending().await,
            }
        }
        self.network.send(request).await
    }
}
