//! The budget of requests for metadata, which all clients of an account share.
//!
//! Source: concepts-limits, "Request limits": per five minutes and account, 500 reads of databases
//! and containers, and 500 requests of the kinds that the table does not name, such as listing
//! physical partitions. Off by default.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::Method;

use crate::protocol::{OperationKind, Request, Resource, ServiceError};
use crate::time::Clock;

const WINDOW: Duration = Duration::from_secs(300);
/// The time that a rejected client is asked to wait. No source names the service's.
const RETRY_AFTER_MS: u64 = 1000;

/// Counts the requests of the current window.
#[derive(Debug)]
pub(crate) struct MetadataBudget {
    limit: Option<u32>,
    clock: Clock,
    window: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    since: Duration,
    /// Reads of databases and containers.
    reads: u32,
    others: u32,
}

impl MetadataBudget {
    pub(crate) fn new(limit: Option<u32>, clock: Clock) -> Self {
        Self {
            limit,
            clock,
            window: Mutex::default(),
        }
    }

    /// Counts a request, or rejects it. Requests for items are not counted.
    pub(crate) fn admit(&self, request: &Request) -> Result<(), ServiceError> {
        let Some(limit) = self
            .limit
            .filter(|_| request.kind == OperationKind::Metadata)
        else {
            return Ok(());
        };
        let now = self.clock.monotonic();
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_sub(window.since) >= WINDOW {
            *window = Window {
                since: now,
                ..Window::default()
            };
        }
        let is_read = request.method == Method::GET
            && matches!(
                request.resource,
                Resource::Databases
                    | Resource::Database(_)
                    | Resource::Containers(_)
                    | Resource::Container(_)
            );
        let count = if is_read {
            &mut window.reads
        } else {
            &mut window.others
        };
        if *count >= limit {
            return Err(ServiceError::too_much_metadata(RETRY_AFTER_MS));
        }
        *count += 1;
        Ok(())
    }
}
