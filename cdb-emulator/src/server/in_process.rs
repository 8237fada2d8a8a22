//! Requests without sockets.

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Request, Response, StatusCode};

use super::emulator::Emulator;
use super::handle::handle;
use crate::protocol;

/// The address of an emulator without sockets.
pub(crate) const ENDPOINT: &str = "http://emulator.invalid/";

/// Returns the address of a region of an emulator without sockets.
pub(crate) fn region_endpoint(number: usize) -> String {
    format!("http://region-{number}.emulator.invalid/")
}

/// The connection broke before the response arrived, because of an injected fault. The request may
/// have been executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection broke before the response arrived, because of an injected fault")]
pub struct ConnectionBroken;

impl Emulator {
    /// Handles a request in the caller's task, as if it had arrived at the endpoint that its URI
    /// names: with signature checks, faults, latencies and the log. The writes of a request are
    /// also kept when the caller drops the future; like a server, a caller should therefore spawn
    /// it if its client may give up.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use cdb_emulator::Emulator;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let emulator = Emulator::builder().start_in_process()?;
    /// let request = http::Request::get(emulator.endpoint()).body(Bytes::new())?;
    /// let response = emulator.handle(request).await?;
    /// assert_eq!(response.status(), 401); // the request has no signature
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Fails when an injected fault breaks the connection.
    pub async fn handle(
        &self,
        incoming: Request<Bytes>,
    ) -> Result<Response<Bytes>, ConnectionBroken> {
        let (mut parts, body) = incoming.into_parts();
        if let Some(authority) = parts.uri.authority()
            && let Ok(host) = authority.as_str().parse()
        {
            parts.headers.insert(HOST, host);
        }
        let request = protocol::Request {
            region: self.region_of(&parts.uri),
            body,
            ..protocol::Request::new(parts.method, parts.uri.path(), parts.headers)
        };
        let handled = handle(&self.state, request, true, self.stopping.subscribe()).await;
        let response = handled.map_err(|_| ConnectionBroken)?.response;
        let mut sent = Response::new(Bytes::from(response.body));
        *sent.status_mut() =
            StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in response.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                sent.headers_mut().insert(name, value);
            }
        }
        Ok(sent)
    }

    /// Returns the number of the region whose endpoint this is; `None` for the global endpoint.
    fn region_of(&self, uri: &http::Uri) -> Option<usize> {
        let authority = uri.authority()?.as_str();
        let regions = &self.state.service.account.regions;
        regions.iter().position(|(_, endpoint)| {
            let address = endpoint.split_once("://").map(|(_, address)| address);
            address.map(|address| address.trim_end_matches('/')) == Some(authority)
        })
    }
}
