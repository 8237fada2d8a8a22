//! Handles a request, whatever carried it here: the pages of this machine, injected faults, the
//! service.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, watch};

use super::local;
use super::state::ServerState;
use crate::fault::{Effect, Injection};
use crate::protocol::{Request, Response};

/// Maximum time without a response to a request that a fault keeps waiting.
const SILENCE: Duration = Duration::from_secs(600);

/// Breaks the connection instead of a response.
#[derive(Debug, thiserror::Error)]
#[error("a fault broke the connection")]
pub(crate) struct Broken;

/// A response and the room in memory that is reserved for it.
#[derive(Debug)]
pub(crate) struct Handled {
    pub(crate) response: Response,
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

impl From<Response> for Handled {
    fn from(response: Response) -> Self {
        Self {
            response,
            permit: None,
        }
    }
}

/// Executes a request, or what an injected fault does instead. `on_loopback` says that it came from
/// this machine.
pub(crate) async fn handle(
    server: &Arc<ServerState>,
    request: Request,
    on_loopback: bool,
    stop: watch::Receiver<bool>,
) -> Result<Handled, Broken> {
    if local::is_local(&request.path) {
        return Ok(local::serve_page(server, &request, on_loopback)
            .await
            .into());
    }
    execute_with_faults(server, request, stop).await
}

async fn execute_with_faults(
    server: &Arc<ServerState>,
    request: Request,
    mut stop: watch::Receiver<bool>,
) -> Result<Handled, Broken> {
    let mut request = Arc::new(request);
    let detail = server.faults.target_detail();
    let target = server.service.target(&request, detail).await;
    let Injection { delay, effect } = server.faults.next(&target);
    server.timer.wait(delay).await;
    if effect == Some(Effect::Silence) {
        // The client closes the connection first, which drops this future.
        let _elapsed = tokio::time::timeout(SILENCE, stop.wait_for(|stop| *stop)).await;
        return Err(Broken);
    }
    Arc::make_mut(&mut request).stale_ranges = effect == Some(Effect::StaleRanges);
    let permit = server.admission.outgoing().await;
    let response = match effect {
        Some(Effect::DropRequest | Effect::Silence) => return Err(Broken),
        Some(Effect::DropAnswer) => {
            server.service.execute(&request).await;
            return Err(Broken);
        }
        Some(Effect::Status {
            status,
            substatus,
            retry_after_ms,
        }) => {
            let service = &server.service;
            service.inject(&request, status, substatus, retry_after_ms)
        }
        Some(Effect::StatusAfterEffect { status }) => {
            server.service.execute(&request).await;
            server.service.inject(&request, status, 0, None)
        }
        // `delay` contains the delay, and `request` that the listing is stale.
        None | Some(Effect::Pass | Effect::Delay(_) | Effect::StaleRanges) => {
            server.service.execute(&request).await
        }
    };
    Ok(Handled { response, permit })
}
