//! The end of a provider whose last handle is dropped.

use std::time::Duration;

use crate::services::Services;
use crate::{activities, turn};

/// How long a provider that was dropped may still give back what it holds.
const FAREWELL: Duration = Duration::from_secs(5);

/// Held by the handles to a provider and by nothing else: the last one that goes ends what runs for it.
pub(crate) struct Owner {
    services: Services,
    /// Handles may be dropped outside of it.
    runtime: tokio::runtime::Handle,
}

impl Owner {
    /// Owned in the Tokio runtime that this is called in.
    pub(crate) fn new(services: Services) -> Self {
        Self {
            services,
            runtime: tokio::runtime::Handle::current(),
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.services.tasks.is_stopped() {
            return;
        }
        self.services.tasks.stop();
        let services = self.services.clone();
        // Where the Tokio runtime has ended, this does nothing, and the locks end by themselves.
        self.runtime.spawn(async move {
            let farewell = async {
                futures::join!(
                    turn::give_back_ahead(&services, Duration::ZERO),
                    activities::give_back_ahead(&services, Duration::ZERO),
                    services.queues.leave()
                );
            };
            if tokio::time::timeout(FAREWELL, farewell).await.is_err() {
                tracing::debug!("locks of a dropped provider are left to end by themselves");
            }
        });
    }
}
