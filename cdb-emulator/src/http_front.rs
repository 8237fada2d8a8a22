//! Sockets: HTTP in, HTTP out, with faults in between. What a request means is the service's business.
//!
//! Both versions are spoken: the vendor's Rust client begins with HTTP/2 and asks nobody whether it is wanted.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::JoinSet;

use crate::admission::{Admission, Limits, MAX_BODY, MAX_HEAD, Outgoing, Patient, turn_away};
use crate::error::ServiceError;
use crate::fault::{Alarm, Effect, Faults, Strike};
use crate::local;
use crate::service::{Answer, Asked, Service};
use crate::tls::Security;

/// Requests at once on one HTTP/2 connection.
const MAX_STREAMS: u32 = 200;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) service: Arc<Service>,
    pub(crate) faults: Faults,
    pub(crate) alarm: Alarm,
    pub(crate) security: Security,
    pub(crate) admission: Admission,
}

/// Accepts connections until it is told to stop, and then lets every request that has begun be answered. Aborting it
/// ends the connections too.
pub(crate) async fn serve(
    listener: TcpListener,
    front: Arc<Front>,
    mut stop: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stop) => break,
        };
        match accepted {
            Ok((stream, _)) => match front.admission.connection() {
                Some(place) => {
                    let served = connection(stream, front.clone(), stop.clone());
                    connections.spawn(async move {
                        served.await;
                        drop(place);
                    });
                }
                None => {
                    if let Some(place) = front.admission.farewell() {
                        connections.spawn(turn_away(stream, place));
                    }
                }
            },
            Err(error) => {
                // For example no file descriptor is left; one comes free when a connection ends.
                tracing::warn!(%error, "connection was not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Ends when the server is to stop, and also when nobody is left to tell.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error says that the sender is gone, which is as good a reason.
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn connection(stream: TcpStream, front: Arc<Front>, mut stop: watch::Receiver<bool>) {
    // Without it, small answers wait for acknowledgements of earlier ones.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY cannot be set");
    }
    let on_loopback = [stream.peer_addr(), stream.local_addr()]
        .into_iter()
        .all(|end| end.is_ok_and(|end| end.ip().is_loopback()));
    let limits = front.admission.limits;
    let stream = Patient::new(stream, &limits);
    let stream = match front.security.accept(stream).await {
        Ok(stream) => stream,
        Err(error) => return tracing::debug!(%error, "no TLS"),
    };
    let service = service_fn(|request| answer(front.clone(), request, on_loopback));
    let builder = protocols(&limits);
    let served = builder.serve_connection(stream, service);
    tokio::pin!(served);
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = stopped(&mut stop) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        // Also what a fault that breaks the connection looks like.
        tracing::debug!(%error, "connection ended");
    }
}

/// HTTP/1.1 and HTTP/2, with bounds on what a client can make them keep.
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

/// The connection is to be broken instead of answered.
#[derive(Debug, thiserror::Error)]
#[error("broken on purpose")]
struct Broken;

async fn answer(
    front: Arc<Front>,
    request: Request<Incoming>,
    on_loopback: bool,
) -> Result<Response<Outgoing>, Broken> {
    let (mut parts, body) = request.into_parts();
    if let Some(authority) = parts.uri.authority()
        && let Ok(host) = authority.as_str().parse()
    {
        // HTTP/2 says there which host is meant.
        parts.headers.insert(http::header::HOST, host);
    }
    let mut asked = Asked {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        headers: parts.headers,
        body: Bytes::new(),
    };
    let _room = front.admission.incoming(body.size_hint().exact()).await;
    let arriving = Limited::new(body, MAX_BODY).collect();
    match tokio::time::timeout(front.admission.limits.stall, arriving).await {
        Ok(Ok(body)) => asked.body = body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let error = ServiceError::too_large("Request size is too large.");
            return Ok(to_http(front.service.turn_down(&asked, &error), None));
        }
        Ok(Err(_)) => return Err(Broken),
        Err(_) => {
            let error = ServiceError::new(408, 0, "RequestTimeout", "The body did not arrive.");
            return Ok(to_http(front.service.turn_down(&asked, &error), None));
        }
    }
    if local::concerns(&asked.path) {
        let answer = local::answer(&front, &asked, on_loopback).await;
        return Ok(to_http(answer, None));
    }
    unless_struck(&front, asked).await
}

/// Carries a request out, unless a fault has it that something else happens.
async fn unless_struck(front: &Front, asked: Asked) -> Result<Response<Outgoing>, Broken> {
    let Strike { delay, effect } = front.faults.strike(asked.kind());
    front.alarm.wait(delay).await;
    let asked = Arc::new(asked);
    let room = front.admission.outgoing().await;
    match effect {
        Some(Effect::DropRequest) => Err(Broken),
        Some(Effect::DropAnswer) => {
            front.service.answer(&asked).await;
            Err(Broken)
        }
        Some(Effect::Status {
            status,
            substatus,
            retry_after_ms,
        }) => {
            let refused = front
                .service
                .refuse(&asked, status, substatus, retry_after_ms);
            Ok(to_http(refused, room))
        }
        Some(Effect::StatusAfterEffect { status }) => {
            front.service.answer(&asked).await;
            Ok(to_http(front.service.refuse(&asked, status, 0, None), room))
        }
        // The delay has been waited for already.
        None | Some(Effect::Pass | Effect::Delay(_)) => {
            Ok(to_http(front.service.answer(&asked).await, room))
        }
    }
}

fn to_http(answer: Answer, room: Option<OwnedSemaphorePermit>) -> Response<Outgoing> {
    let mut response = Response::new(Outgoing::new(answer.body, room));
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        // Values come from numbers, ids in ASCII and base64; one that is no header is left out.
        if let Ok(value) = value.parse() {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    use crate::Emulator;
    use crate::admission::{Limits, MAX_BODY};

    /// Changes one of the limits to this. The other one stays long: on a slow machine a test would meet it as well.
    const SHORT: Duration = Duration::from_millis(200);

    /// An emulator with other limits, and a connection to it.
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
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_body_without_end_is_refused_and_not_kept() {
        let emulator = Emulator::start().await.unwrap();
        let mut stream = TcpStream::connect(address(&emulator)).unwrap();
        let answer = tokio::task::spawn_blocking(move || {
            // One byte above the limit: all is read when the answer comes, so nothing resets the connection.
            let head = format!(
                "POST /dbs/d/colls/c/docs HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                MAX_BODY + 1
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&vec![b'x'; MAX_BODY + 1]).unwrap();
            read(&mut stream)
        });
        let answer = answer.await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_connection_that_asks_nothing_is_closed() {
        for said in [
            "",
            "GET / HTTP/1.1\r\nhost:",
            "GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        ] {
            let (_emulator, mut stream) = limited(|limits| limits.idle = SHORT).await;
            let ended = tokio::task::spawn_blocking(move || {
                // On a slow machine it may be closed before anything is said.
                let _closed = stream.write_all(said.as_bytes());
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
    async fn a_body_that_does_not_arrive_is_not_waited_for() {
        let (_emulator, mut stream) = limited(|limits| limits.stall = SHORT).await;
        let answer = tokio::task::spawn_blocking(move || {
            let head = "POST /dbs/d/colls/c/docs HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{";
            stream.write_all(head.as_bytes()).unwrap();
            read(&mut stream)
        });
        let answer = answer.await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_client_that_reads_no_answers_is_given_up() {
        let (emulator, _) = limited(|limits| limits.stall = SHORT).await;
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        // Little fits between the two, so that the server soon waits.
        socket.set_recv_buffer_size(4096).unwrap();
        let address = address(&emulator).parse().unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        // The refusal repeats the path, so it is as long as the request.
        let path = "x".repeat(20_000);
        let request = format!("GET /nothing/{path} HTTP/1.1\r\nhost: x\r\n\r\n");
        let sending = async {
            while tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes())
                .await
                .is_ok()
            {}
        };
        let given_up = tokio::time::timeout(Duration::from_secs(600), sending).await;
        assert!(given_up.is_ok(), "it waits for ever");
    }
}
