//! Sockets: HTTP in, HTTP out, with faults in between. What a request means is the service's business.
//!
//! Both versions are spoken: the vendor's Rust client begins with HTTP/2 and asks nobody whether it is wanted.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioExecutor;
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::fault::{Effect, Faults, Strike};
use crate::local;
use crate::service::{Answer, Asked, Service};
use crate::tls::Security;

/// Most bytes of a body that are kept in memory. Far above what the rules allow, so that a body a little too large is
/// still read to its end and refused by the rule that it breaks.
const MAX_BODY: usize = 16 * 1024 * 1024;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) service: Arc<Service>,
    pub(crate) faults: Faults,
    pub(crate) security: Security,
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
            Ok((stream, _)) => {
                connections.spawn(connection(stream, front.clone(), stop.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "connection was not accepted");
                tokio::time::sleep(Duration::from_millis(10)).await;
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
    let stream = match front.security.accept(stream).await {
        Ok(stream) => stream,
        Err(error) => return tracing::debug!(%error, "no TLS"),
    };
    let service = service_fn(|request| answer(front.clone(), request, on_loopback));
    let builder = auto::Builder::new(TokioExecutor::new());
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

/// The connection is to be broken instead of answered.
#[derive(Debug, thiserror::Error)]
#[error("broken on purpose")]
struct Broken;

async fn answer(
    front: Arc<Front>,
    request: Request<Incoming>,
    on_loopback: bool,
) -> Result<Response<Full<Bytes>>, Broken> {
    let (parts, body) = request.into_parts();
    let mut asked = Asked {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        headers: parts.headers,
        body: Bytes::new(),
    };
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => asked.body = body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return Ok(to_http(front.service.too_large(&asked)));
        }
        Err(_) => return Err(Broken),
    }
    if local::concerns(&asked.path) {
        return Ok(to_http(local::answer(
            &front,
            &Arc::new(asked),
            on_loopback,
        )));
    }
    let Strike { delay, effect } = front.faults.strike(asked.kind());
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    let asked = Arc::new(asked);
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
        }) => Ok(to_http(front.service.refuse(
            &asked,
            status,
            substatus,
            retry_after_ms,
        ))),
        Some(Effect::StatusAfterEffect { status }) => {
            front.service.answer(&asked).await;
            Ok(to_http(front.service.refuse(&asked, status, 0, None)))
        }
        // The delay has been waited for already.
        None | Some(Effect::Pass | Effect::Delay(_)) => {
            Ok(to_http(front.service.answer(&asked).await))
        }
    }
}

fn to_http(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
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
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::MAX_BODY;
    use crate::Emulator;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_body_without_end_is_refused_and_not_kept() {
        let emulator = Emulator::start().await.unwrap();
        let address = emulator.endpoint().replace("http://", "").replace('/', "");
        let answer = tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            // One byte above the limit: all is read when the answer comes, so nothing resets the connection.
            let head = format!(
                "POST /dbs/d/colls/c/docs HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                MAX_BODY + 1
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&vec![b'x'; MAX_BODY + 1]).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        let answer = answer.await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    }
}
