//! Limits that bound the memory of the server under many clients: connections, bytes of bodies in
//! transit, and idle time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep, timeout};

use crate::account::Limits;

/// Maximum size of a request body. It is far above the limits of the service, so that a body
/// slightly over such a limit is read completely and rejected with the service's own error.
pub(crate) const MAX_BODY: usize = 16 * 1024 * 1024;
/// Maximum size of a request head (request line and headers): the gateway refused one with a session
/// token of 15,837 bytes (azure-cosmos-dotnet-v3#2146), with 400 then, with 431 in 2026
/// (azure-sdk-for-python#47256).
pub(crate) const MAX_HEAD: usize = 16 * 1024;
/// Bytes reserved for a response before its size is known: the largest page of a query.
const RESPONSE: usize = 4 * 1024 * 1024;
/// Bytes of all request bodies together, and the same again for response bodies.
const BODIES: usize = 512 * 1024 * 1024;
/// Bytes per permit: a semaphore counts to 2^32.
const BLOCK: usize = 1024;
/// Rejected connections that get a response at the same time; further ones are closed without a
/// response.
const REJECTIONS: usize = 256;

/// Admits connections and bodies within the limits.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) limits: Limits,
    connections: Arc<Semaphore>,
    rejections: Arc<Semaphore>,
    incoming: Arc<Semaphore>,
    outgoing: Arc<Semaphore>,
}

impl Admission {
    pub(crate) fn new(connections: usize, limits: Limits) -> Self {
        let semaphore = |permits: usize| {
            let permits = permits.min(Semaphore::MAX_PERMITS);
            Arc::new(Semaphore::new(permits))
        };
        Self {
            limits,
            connections: semaphore(connections),
            rejections: semaphore(REJECTIONS),
            incoming: semaphore(BODIES / BLOCK),
            outgoing: semaphore(BODIES / BLOCK),
        }
    }

    /// Returns a permit for a connection; `None` when the limit is reached.
    pub(crate) fn connection(&self) -> Option<OwnedSemaphorePermit> {
        self.connections.clone().try_acquire_owned().ok()
    }

    /// Waits for room for a request body of this length, or of the maximum length if the length is
    /// unknown.
    pub(crate) async fn incoming(&self, length: Option<u64>) -> Option<OwnedSemaphorePermit> {
        let length = length.and_then(|length| usize::try_from(length).ok());
        let length = length.unwrap_or(MAX_BODY).min(MAX_BODY);
        let permit = self.incoming.clone().acquire_many_owned(blocks(length));
        permit.await.ok()
    }

    /// Waits for room for a response. A task that holds the permit acquires no other, so this
    /// cannot deadlock.
    pub(crate) async fn outgoing(&self) -> Option<OwnedSemaphorePermit> {
        let permit = self.outgoing.clone().acquire_many_owned(blocks(RESPONSE));
        permit.await.ok()
    }

    /// Returns a permit to respond to a rejected connection; `None` when the limit is reached.
    pub(crate) fn rejection(&self) -> Option<OwnedSemaphorePermit> {
        self.rejections.clone().try_acquire_owned().ok()
    }
}

fn blocks(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(BLOCK)).unwrap_or(u32::MAX)
}

/// Rejects a connection with 503 in plain HTTP. A TLS client sees a failed handshake.
pub(crate) async fn reject_connection(mut stream: TcpStream, permit: OwnedSemaphorePermit) {
    let body =
        r#"{"code":"ServiceUnavailable","message":"Too many connections are open; close some."}"#;
    let text = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let rejection = async {
        stream.write_all(text.as_bytes()).await?;
        stream.shutdown().await?;
        // Unread bytes would reset the connection before the client reads the response.
        let mut rest = (&mut stream).take(64 * 1024);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    if !matches!(timeout(Duration::from_secs(1), rejection).await, Ok(Ok(_))) {
        tracing::debug!("a rejected client closed its connection before the response");
    }
    drop(permit);
}

/// The body of a response with its permit, which is released when the body is written or dropped.
#[derive(Debug)]
pub(crate) struct Outgoing {
    body: Full<Bytes>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Outgoing {
    /// Returns the body and releases the unused part of the permit.
    pub(crate) fn new(body: Vec<u8>, mut permit: Option<OwnedSemaphorePermit>) -> Self {
        if let Some(permit) = &mut permit {
            let needed = usize::try_from(blocks(body.len())).unwrap_or(usize::MAX);
            let spare = permit.num_permits().saturating_sub(needed);
            drop(permit.split(spare));
        }
        Self {
            body: Full::new(Bytes::from(body)),
            _permit: permit,
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection that times out when its client sends nothing at first, or does not read for too
/// long.
#[derive(Debug)]
pub(crate) struct TimedStream {
    stream: TcpStream,
    write_timeout: Duration,
    /// Runs until the client has sent `preface` bytes; from then on the protocol's own timeouts
    /// apply.
    read_timer: Option<Pin<Box<Sleep>>>,
    /// Bytes of the preface that are still missing.
    preface: usize,
    /// Runs while nothing can be written.
    write_timer: Option<Pin<Box<Sleep>>>,
}

/// The length of the preface of HTTP/2: after as many bytes the protocol is known.
const PREFACE: usize = 24;

impl TimedStream {
    pub(crate) fn new(stream: TcpStream, limits: &Limits) -> Self {
        Self {
            stream,
            write_timeout: limits.stall,
            read_timer: Some(Box::pin(sleep(limits.idle))),
            preface: PREFACE,
            write_timer: None,
        }
    }

    /// Fails with a timeout when nothing could be written for too long.
    fn timed<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<std::io::Result<T>>,
    ) -> Poll<std::io::Result<T>> {
        if written.is_ready() {
            self.write_timer = None;
            return written;
        }
        let timeout = self.write_timeout;
        let timer = self
            .write_timer
            .get_or_insert_with(|| Box::pin(sleep(timeout)));
        timer
            .as_mut()
            .poll(cx)
            .map(|()| Err(std::io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let Some(timer) = &mut self.read_timer else {
            return read;
        };
        if read.is_pending() {
            return timer
                .as_mut()
                .poll(cx)
                .map(|()| Err(std::io::ErrorKind::TimedOut.into()));
        }
        self.preface = self.preface.saturating_sub(buffer.filled().len() - before);
        if self.preface == 0 {
            self.read_timer = None;
        }
        read
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.timed(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.timed(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
