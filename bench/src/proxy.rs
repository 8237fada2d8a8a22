//! Adds a round trip to a PostgreSQL and counts its traffic.
//!
//! Requests are forwarded at once, answers a round trip later. Each piece of an answer is due a
//! round trip after it was read, independent of other pieces, as on a longer wire.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

/// The traffic and the round trip.
#[derive(Debug, Default)]
pub struct Counters {
    round_trips: AtomicU64,
    bytes: AtomicU64,
    latency_micros: AtomicU64,
}

impl Counters {
    /// Sets the delay of answers.
    pub fn set_latency(&self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.latency_micros.store(micros, Ordering::Relaxed);
    }

    fn latency(&self) -> Duration {
        Duration::from_micros(self.latency_micros.load(Ordering::Relaxed))
    }

    /// Resets the counters.
    pub fn reset(&self) {
        self.round_trips.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Round trips and bytes.
    pub fn read(&self) -> (u64, u64) {
        (
            self.round_trips.load(Ordering::Relaxed),
            self.bytes.load(Ordering::Relaxed),
        )
    }

    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// A port that leads to the server. Closed when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port.
    pub async fn start(server: u16, counters: Arc<Counters>) -> Result<Self, String> {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .map_err(|error| error.to_string())?;
        let port = listener
            .local_addr()
            .map_err(|error| error.to_string())?
            .port();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(pass(client, server, counters.clone()));
            }
        });
        Ok(Self { port, task })
    }

    /// Returns the listening port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(client: TcpStream, server: u16, counters: Arc<Counters>) -> std::io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", server)).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let asking = ask(from_client, to_server, counters.clone());
    let answering = answer(from_server, to_client, counters);
    // Either side ends the connection.
    tokio::select! { ended = asking => ended, ended = answering => ended }
}

async fn ask(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    counters: Arc<Counters>,
) -> std::io::Result<()> {
    let mut messages = Messages::default();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = client.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        counters.add(length);
        counters.round_trips.fetch_add(
            messages.round_trips_in(&buffer[..length]),
            Ordering::Relaxed,
        );
        server.write_all(&buffer[..length]).await?;
    }
}

async fn answer(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    counters: Arc<Counters>,
) -> std::io::Result<()> {
    let (late, mut due) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let reading = async move {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let length = server.read(&mut buffer).await?;
            if length == 0
                || late
                    .send((
                        Instant::now() + counters.latency(),
                        buffer[..length].to_vec(),
                    ))
                    .is_err()
            {
                return Ok(());
            }
            counters.add(length);
        }
    };
    let writing = async move {
        while let Some((at, bytes)) = due.recv().await {
            tokio::time::sleep_until(at).await;
            client.write_all(&bytes).await?;
        }
        Ok(())
    };
    tokio::try_join!(reading, writing).map(|((), ())| ())
}

/// The client's messages: each has a type and a length, except the first, which has no type.
#[derive(Debug, Default)]
struct Messages {
    begun: bool,
    header: Vec<u8>,
    body_left: usize,
}

impl Messages {
    /// Counts the messages in the next bytes that require an answer: Sync and simple queries.
    fn round_trips_in(&mut self, mut bytes: &[u8]) -> u64 {
        let mut found = 0;
        while !bytes.is_empty() {
            let skipped = self.body_left.min(bytes.len());
            self.body_left -= skipped;
            bytes = &bytes[skipped..];
            let wanted = if self.begun { 5 } else { 4 };
            let taken = (wanted - self.header.len()).min(bytes.len());
            self.header.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if self.header.len() < wanted || self.body_left > 0 {
                continue;
            }
            if self.begun && matches!(self.header[0], b'S' | b'Q') {
                found += 1;
            }
            let length = self.header[wanted - 4..]
                .iter()
                .fold(0, |length, byte| length << 8 | usize::from(*byte));
            // The length counts itself.
            self.body_left = length.saturating_sub(4);
            self.header.clear();
            self.begun = true;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::Messages;

    #[test]
    fn a_sync_message_is_counted_when_split_at_any_byte() {
        let mut wire = vec![0, 0, 0, 8, 0, 3, 0, 0];
        wire.extend([
            b'P', 0, 0, 0, 6, b'S', b'S', b'S', 0, 0, 0, 4, b'Q', 0, 0, 0, 5, b'Q',
        ]);
        for cut in 0..wire.len() {
            let mut messages = Messages::default();
            let found =
                messages.round_trips_in(&wire[..cut]) + messages.round_trips_in(&wire[cut..]);
            assert_eq!(found, 2, "cut at {cut}");
        }
    }
}
