//! How much is served at once, so that no crowd of clients makes the server grow without bound: connections, bytes of
//! bodies on their way in and out, and how long a connection may do nothing.

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

/// Most bytes of a body that are kept in memory. Far above what the rules allow, so that a body a little too large is
/// still read to its end and refused by the rule that it breaks.
pub(crate) const MAX_BODY: usize = 16 * 1024 * 1024;
/// Most bytes of a request's head: its line and headers. Session tokens of many partitions fit.
pub(crate) const MAX_HEAD: usize = 64 * 1024;
/// Bytes set aside for an answer before it is known how large it is; the largest page of a query.
const ANSWER: usize = 4 * 1024 * 1024;
/// Bytes of all bodies that come in, and as many again of all that go out.
const BODIES: usize = 512 * 1024 * 1024;
/// What bytes are counted in: a semaphore counts to 2^32.
const BLOCK: usize = 1024;
/// Connections that are told that there are too many; further ones are just closed.
const FAREWELLS: usize = 256;

/// What one server grants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections that are served at once.
    pub(crate) connections: usize,
    /// How long a connection may be open without a whole request head.
    pub(crate) idle: Duration,
    /// How long a body may take to arrive, and a client to read a piece of its answer.
    pub(crate) stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            idle: Duration::from_secs(300),
            stall: Duration::from_secs(60),
        }
    }
}

/// Who may come in, and with how much.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) limits: Limits,
    connections: Arc<Semaphore>,
    farewells: Arc<Semaphore>,
    incoming: Arc<Semaphore>,
    outgoing: Arc<Semaphore>,
}

impl Admission {
    pub(crate) fn new(limits: Limits) -> Self {
        let semaphore = |permits: usize| {
            let permits = permits.min(Semaphore::MAX_PERMITS);
            Arc::new(Semaphore::new(permits))
        };
        Self {
            limits,
            connections: semaphore(limits.connections),
            farewells: semaphore(FAREWELLS),
            incoming: semaphore(BODIES / BLOCK),
            outgoing: semaphore(BODIES / BLOCK),
        }
    }

    /// A place for a connection, unless all are taken.
    pub(crate) fn connection(&self) -> Option<OwnedSemaphorePermit> {
        self.connections.clone().try_acquire_owned().ok()
    }

    /// Room for a body of this length; of the largest when its length is not known.
    pub(crate) async fn incoming(&self, length: Option<u64>) -> Option<OwnedSemaphorePermit> {
        let length = length.and_then(|length| usize::try_from(length).ok());
        let length = length.unwrap_or(MAX_BODY).min(MAX_BODY);
        let room = self.incoming.clone().acquire_many_owned(blocks(length));
        room.await.ok()
    }

    /// Room for an answer. Whoever holds it waits for no other room, so it comes free.
    pub(crate) async fn outgoing(&self) -> Option<OwnedSemaphorePermit> {
        let room = self.outgoing.clone().acquire_many_owned(blocks(ANSWER));
        room.await.ok()
    }

    /// A place among those who are told why they are not served.
    pub(crate) fn farewell(&self) -> Option<OwnedSemaphorePermit> {
        self.farewells.clone().try_acquire_owned().ok()
    }
}

fn blocks(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(BLOCK)).unwrap_or(u32::MAX)
}

/// Tells a client that there are too many, in plain HTTP; a client that speaks TLS sees its handshake fail.
pub(crate) async fn turn_away(mut stream: TcpStream, place: OwnedSemaphorePermit) {
    let body =
        r#"{"code":"ServiceUnavailable","message":"Too many connections are open; close some."}"#;
    let text = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let farewell = async {
        stream.write_all(text.as_bytes()).await?;
        stream.shutdown().await?;
        // Unread bytes would reset the connection, and the client might not see why.
        let mut rest = (&mut stream).take(64 * 1024);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    if !matches!(timeout(Duration::from_secs(1), farewell).await, Ok(Ok(_))) {
        tracing::debug!("a client did not wait to be turned away");
    }
    drop(place);
}

/// The body of an answer with its room, which is free again when the body is written or given up.
#[derive(Debug)]
pub(crate) struct Outgoing {
    body: Full<Bytes>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Outgoing {
    /// Gives back what the answer does not need.
    pub(crate) fn new(body: Vec<u8>, mut room: Option<OwnedSemaphorePermit>) -> Self {
        if let Some(room) = &mut room {
            let needed = usize::try_from(blocks(body.len())).unwrap_or(usize::MAX);
            let spare = room.num_permits().saturating_sub(needed);
            drop(room.split(spare));
        }
        Self {
            body: Full::new(Bytes::from(body)),
            _room: room,
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

/// A connection that is given up when its client says nothing at first, or does not read for too long.
#[derive(Debug)]
pub(crate) struct Patient {
    stream: TcpStream,
    patience: Duration,
    /// Runs until so much was said that the protocol is known; from there on the protocol has its own patience.
    silence: Option<Pin<Box<Sleep>>>,
    unsaid: usize,
    /// Runs while nothing can be written.
    stalled: Option<Pin<Box<Sleep>>>,
}

/// What HTTP/2 begins with: after as many bytes any protocol is known.
const PREFACE: usize = 24;

impl Patient {
    pub(crate) fn new(stream: TcpStream, limits: &Limits) -> Self {
        Self {
            stream,
            patience: limits.stall,
            silence: Some(Box::pin(sleep(limits.idle))),
            unsaid: PREFACE,
            stalled: None,
        }
    }

    fn judge<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<std::io::Result<T>>,
    ) -> Poll<std::io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let patience = self.patience;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(sleep(patience)));
        let out = stalled.as_mut().poll(cx);
        out.map(|()| Err(std::io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let Some(silence) = &mut self.silence else {
            return read;
        };
        if read.is_pending() {
            let out = silence.as_mut().poll(cx);
            return out.map(|()| Err(std::io::ErrorKind::TimedOut.into()));
        }
        self.unsaid = self.unsaid.saturating_sub(buffer.filled().len() - before);
        if self.unsaid == 0 {
            self.silence = None;
        }
        read
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.judge(cx, written)
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
