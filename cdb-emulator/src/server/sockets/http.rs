//! The HTTP listener: reads requests, applies faults, and sends the responses of the service.
//!
//! It accepts HTTP/1.1 and HTTP/2. Microsoft's Rust client starts with HTTP/2 without negotiation.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::JoinSet;

use crate::account::Limits;
use crate::protocol::{Request, Response, ServiceError};
use crate::server::connection::admission::{
    MAX_BODY, MAX_HEAD, Outgoing, TimedStream, reject_connection,
};
use crate::server::handle::{Broken, handle};
use crate::server::state::ServerState;

/// Concurrent requests on one HTTP/2 connection.
const MAX_STREAMS: u32 = 200;

/// A listener and the region of its endpoint; `None` for the global endpoint.
pub(crate) type Endpoint = (TcpListener, Option<usize>);

/// Serves all endpoints until `stop` is true. Aborting this future also closes the connections.
pub(crate) async fn serve_all(
    endpoints: Vec<Endpoint>,
    server: Arc<ServerState>,
    stop: watch::Receiver<bool>,
) {
    let mut all = JoinSet::new();
    for endpoint in endpoints {
        all.spawn(serve(endpoint, server.clone(), stop.clone()));
    }
    while all.join_next().await.is_some() {}
}

/// Accepts connections until `stop` is true, then completes the requests in progress.
async fn serve(
    (listener, region): Endpoint,
    server: Arc<ServerState>,
    mut stop: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stop) => break,
        };
        match accepted {
            Ok((stream, _)) => match server.admission.connection() {
                Some(permit) => {
                    let serving = connection(stream, region, server.clone(), stop.clone());
                    connections.spawn(async move {
                        serving.await;
                        drop(permit);
                    });
                }
                None => {
                    if let Some(permit) = server.admission.rejection() {
                        connections.spawn(reject_connection(stream, permit));
                    }
                }
            },
            Err(error) => {
                // For example, all file descriptors are in use until a connection closes.
                tracing::warn!(%error, "connection was not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Waits until the server stops.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the emulator was dropped, which stops the server too.
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn connection(
    stream: TcpStream,
    region: Option<usize>,
    server: Arc<ServerState>,
    mut stop: watch::Receiver<bool>,
) {
    // Without it, a small response waits for the acknowledgement of an earlier one.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY cannot be set");
    }
    let on_loopback = [stream.peer_addr(), stream.local_addr()]
        .into_iter()
        .all(|end| end.is_ok_and(|end| end.ip().is_loopback()));
    let limits = server.admission.limits;
    let stream = TimedStream::new(stream, &limits);
    let stream = match server.security.accept(stream).await {
        Ok(stream) => stream,
        Err(error) => return tracing::debug!(%error, "the TLS handshake failed"),
    };
    let origin = Origin {
        on_loopback,
        region,
        stop: stop.clone(),
    };
    let service = service_fn(|request| receive(server.clone(), request, origin.clone()));
    let builder = protocols(&limits);
    let serving = builder.serve_connection(stream, service);
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stopped(&mut stop) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        // Also logged for a fault that breaks the connection.
        tracing::debug!(%error, "connection ended");
    }
}

/// Configures HTTP/1.1 and HTTP/2 with limits on buffers and idle time.
fn protocols(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle)
        .max_buf_size(MAX_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.idle)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(MAX_HEAD).unwrap_or(u32::MAX));
    builder
}

/// The connection of a request.
#[derive(Clone, Debug)]
struct Origin {
    /// Whether both ends are on this machine.
    on_loopback: bool,
    /// The region of the endpoint; `None` for the global endpoint.
    region: Option<usize>,
    stop: watch::Receiver<bool>,
}

/// Receives the body of a request and handles it.
async fn receive(
    server: Arc<ServerState>,
    incoming: http::Request<Incoming>,
    origin: Origin,
) -> Result<http::Response<Outgoing>, Broken> {
    let (mut parts, body) = incoming.into_parts();
    if let Some(authority) = parts.uri.authority()
        && let Ok(host) = authority.as_str().parse()
    {
        // HTTP/2 names the host there.
        parts.headers.insert(http::header::HOST, host);
    }
    let mut request = Request {
        region: origin.region,
        ..Request::new(parts.method, parts.uri.path(), parts.headers)
    };
    let _permit = server.admission.incoming(body.size_hint().exact()).await;
    let arriving = Limited::new(body, MAX_BODY).collect();
    match tokio::time::timeout(server.admission.limits.stall, arriving).await {
        Ok(Ok(body)) => request.body = body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let error = ServiceError::too_large("Request size is too large.");
            return Ok(to_http(server.service.reject(&request, &error), None));
        }
        Ok(Err(_)) => return Err(Broken),
        Err(_) => {
            let error = ServiceError::new(408, 0, "RequestTimeout", "The body did not arrive.");
            return Ok(to_http(server.service.reject(&request, &error), None));
        }
    }
    let handled = handle(&server, request, origin.on_loopback, origin.stop).await?;
    Ok(to_http(handled.response, handled.permit))
}

fn to_http(response: Response, permit: Option<OwnedSemaphorePermit>) -> http::Response<Outgoing> {
    let mut sent = http::Response::new(Outgoing::new(response.body, permit));
    *sent.status_mut() =
        StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in response.headers {
        // Values are numbers, ids in ASCII and base64. A value that is not valid in a header is
        // left out.
        if let Ok(value) = value.parse() {
            sent.headers_mut().insert(name, value);
        }
    }
    sent
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    use crate::Emulator;
    use crate::account::Limits;
    use crate::server::connection::admission::MAX_BODY;

    /// A short limit. Each test shortens one limit only: on a slow machine it could exceed two.
    const SHORT: Duration = Duration::from_millis(200);

    /// Starts an emulator with changed limits and connects to it.
    async fn limited(change: impl FnOnce(&mut Limits)) -> (Emulator, TcpStream) {
        let mut builder = Emulator::builder();
        change(&mut builder.limits);
        let emulator = builder.start().await.unwrap();
        let stream = TcpStream::connect(address(&emulator)).unwrap();
        let longest = Some(Duration::from_secs(600));
        stream.set_read_timeout(longest).unwrap();
        stream.set_write_timeout(longest).unwrap();
        (emulator, stream)
    }

    fn address(emulator: &Emulator) -> String {
        emulator.endpoint().replace("http://", "").replace('/', "")
    }

    fn read(stream: &mut TcpStream) -> String {
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_body_above_the_limit_is_rejected() {
        let emulator = Emulator::start().await.unwrap();
        let mut stream = TcpStream::connect(address(&emulator)).unwrap();
        let response = tokio::task::spawn_blocking(move || {
            // One byte above the limit: the server reads all bytes, so unread bytes do not reset
            // the connection.
            let head = format!(
                "POST /dbs/d/colls/c/docs HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                MAX_BODY + 1
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&vec![b'x'; MAX_BODY + 1]).unwrap();
            read(&mut stream)
        });
        let response = response.await.unwrap();
        assert!(response.starts_with("HTTP/1.1 413 "), "{response}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn an_idle_connection_is_closed() {
        for sent in [
            "",
            "GET / HTTP/1.1\r\nhost:",
            "GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        ] {
            let (_emulator, mut stream) = limited(|limits| limits.idle = SHORT).await;
            let ended = tokio::task::spawn_blocking(move || {
                // On a slow machine the server may close the connection before this.
                let _closed = stream.write_all(sent.as_bytes());
                let ended = stream.read_to_end(&mut Vec::new());
                ended.map_err(|error| error.kind())
            });
            let ended = ended.await.unwrap();
            assert!(
                matches!(ended, Ok(_) | Err(ErrorKind::ConnectionReset)),
                "{ended:?}"
            );
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_body_that_does_not_arrive_times_out() {
        let (_emulator, mut stream) = limited(|limits| limits.stall = SHORT).await;
        let response = tokio::task::spawn_blocking(move || {
            let head = "POST /dbs/d/colls/c/docs HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{";
            stream.write_all(head.as_bytes()).unwrap();
            read(&mut stream)
        });
        let response = response.await.unwrap();
        assert!(response.starts_with("HTTP/1.1 408 "), "{response}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_client_that_reads_no_responses_is_disconnected() {
        let (emulator, _) = limited(|limits| limits.stall = SHORT).await;
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        // A small buffer, so that the server soon waits for the client.
        socket.set_recv_buffer_size(4096).unwrap();
        let address = address(&emulator).parse().unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        // The error repeats the path, so it is as long as the request.
        let path = "x".repeat(20_000);
        let request = format!("GET /nothing/{path} HTTP/1.1\r\nhost: x\r\n\r\n");
        let sending = async {
            while tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes())
                .await
                .is_ok()
            {}
        };
        let disconnected = tokio::time::timeout(Duration::from_secs(600), sending).await;
        assert!(
            disconnected.is_ok(),
            "the server still waits for the client"
        );
    }
}
