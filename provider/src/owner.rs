//! Ends a provider when its last handle is dropped.

use std::time::Duration;

use crate::services::Services;
use crate::timing::RELEASE_TIMEOUT;
use crate::{activities, turn};

/// Ends the background tasks of a provider when its last handle is dropped.
pub(crate) struct Owner {
    services: Services,
    /// Handles may be dropped outside of the Tokio runtime.
    runtime: tokio::runtime::Handle,
}

impl Owner {
    /// Keeps a handle of the current Tokio runtime.
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
        // If the Tokio runtime has ended, nothing runs, and the locks expire.
        self.runtime.spawn(async move {
            let release = async {
                futures::join!(
                    turn::release_prelocks(&services, Duration::ZERO),
                    activities::release_prelocks(&services, Duration::ZERO),
                    services.queues.leave()
                );
            };
            if tokio::time::timeout(RELEASE_TIMEOUT, release)
                .await
                .is_err()
            {
                tracing::debug!("locks of a dropped provider were not released; they will expire");
            }
        });
    }
}
