//! Thousands of concurrent connections: the server accepts them up to the limit, rejects the
//! others, and bounds its memory.
//!
//! This is a binary of its own, because it measures memory and counts open files.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::Emulator;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;

/// Locked by the test that measures the memory of the process.
static ALONE: Mutex<()> = Mutex::const_new(());

/// The connections of a busy application and its tests.
const WANTED: usize = 10_000;

/// A request without a signature. It is rejected after the whole path of a request.
const REQUEST: &[u8] = b"GET /dbs/db/colls/c HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Returns the number of connections that the limit on open files allows, if a process has `ends`
/// files per connection.
fn affordable(ends: usize) -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let soft = files.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    let count = (soft.unwrap_or(1024).saturating_sub(300) / ends).min(WANTED);
    eprintln!("{count} connections, of {WANTED} wanted, are what the limit on open files allows");
    count
}

fn address(emulator: &Emulator) -> String {
    let endpoint = emulator.endpoint();
    endpoint
        .trim_start_matches("http://")
        .trim_end_matches('/')
        .to_owned()
}

/// Sends a request and reads the start of the response.
async fn ask(stream: &mut TcpStream) -> String {
    try_ask(stream).await.expect("it is answered")
}

async fn try_ask(stream: &mut TcpStream) -> std::io::Result<String> {
    stream.write_all(REQUEST).await?;
    let mut answer = vec![0; 4096];
    let length = stream.read(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}

/// Returns the memory of a process in bytes; 0 if the system does not report it.
fn memory(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let kilobytes = status.lines().find_map(|line| {
        let line = line.strip_prefix("VmRSS:")?;
        line.split_whitespace().next()?.parse::<usize>().ok()
    });
    kilobytes.unwrap_or(0) * 1024
}

/// The emulator in a process of its own, which is killed on drop.
struct Process {
    child: Child,
    address: String,
}

impl Process {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cdb-emulator"))
            .args(["--port", "0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut line = String::new();
        let output = child.stdout.take().expect("it is piped");
        let read = BufReader::new(output).read_line(&mut line);
        assert!(read.expect("a line") > 0);
        let mut words = line.split_whitespace();
        let endpoint = words.find_map(|word| word.strip_prefix("http://"));
        let address = endpoint.expect("a URL").trim_end_matches('/').to_owned();
        Self { child, address }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process has not ended before.
        let _ = self.child.kill();
        // Waiting prevents a zombie; the exit status is known.
        let _ = self.child.wait();
    }
}

/// Opens connections, sends a request on each when all are open, and closes them. Returns the
/// memory of the server's process while they are open.
async fn crowd(address: &str, count: usize, server: u32) -> usize {
    // At most as many at a time as the backlog of the server holds.
    let gate = Arc::new(Semaphore::new(500));
    let mut opening = JoinSet::new();
    for _ in 0..count {
        let (address, gate) = (address.to_owned(), gate.clone());
        opening.spawn(async move {
            let _turn = gate.acquire().await;
            let mut stream = TcpStream::connect(address).await.expect("a connection");
            assert!(ask(&mut stream).await.starts_with("HTTP/1.1 401"));
            stream
        });
    }
    let streams = opening.join_all().await;
    assert_eq!(streams.len(), count);
    let used = memory(server);
    let mut asking = JoinSet::new();
    for mut stream in streams {
        asking.spawn(async move {
            assert!(ask(&mut stream).await.starts_with("HTTP/1.1 401"));
        });
    }
    asking.join_all().await;
    used
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_connections_are_served_at_once() {
    let _alone = ALONE.lock().await;
    let server = Process::start();
    let (process, count) = (server.child.id(), affordable(1));
    let before = memory(process);
    let used = crowd(&server.address, count, process).await;
    eprintln!(
        "{} bytes of the server for a connection",
        used.saturating_sub(before) / count
    );
    assert!(
        used.saturating_sub(before) < count * 48 * 1024,
        "{before} → {used}"
    );
    let mut stream = TcpStream::connect(&server.address)
        .await
        .expect("it is accepted");
    assert!(ask(&mut stream).await.starts_with("HTTP/1.1 401"));
}

/// A server that kept only a kilobyte of each closed connection would keep 28 MB in the end. The memory
/// of the process varies by a few, because its allocator keeps pages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_connections_release_their_memory() {
    let _alone = ALONE.lock().await;
    let server = Process::start();
    let count = affordable(1).min(300);
    let mut used = Vec::new();
    for _ in 0..100 {
        used.push(crowd(&server.address, count, server.child.id()).await);
    }
    eprintln!("{used:?}");
    assert!(used[99] < used[4] + 95 * count * 512, "it grows: {used:?}");
}

#[tokio::test]
async fn a_connection_over_the_limit_is_rejected_until_another_closes() {
    let emulator = Emulator::builder().max_connections(2).start().await;
    let emulator = emulator.expect("it starts");
    let address = address(&emulator);
    let connect = async || TcpStream::connect(&address).await.expect("a connection");
    let (mut first, mut second) = (connect().await, connect().await);
    assert!(ask(&mut first).await.starts_with("HTTP/1.1 401"));
    assert!(ask(&mut second).await.starts_with("HTTP/1.1 401"));
    let refused = loop {
        // The server waits for a second and then closes the connection.
        if let Ok(refused) = try_ask(&mut connect().await).await {
            break refused;
        }
    };
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(refused.contains("Too many connections"), "{refused}");
    drop(first);
    let mut status = Ok(String::new());
    for _ in 0..30_000 {
        // The server notices the closed connection a moment later.
        tokio::time::sleep(Duration::from_millis(20)).await;
        status = try_ask(&mut connect().await).await;
        if matches!(&status, Ok(status) if status.starts_with("HTTP/1.1 401")) {
            return;
        }
    }
    panic!("no place came free: {status:?}");
}

#[tokio::test]
async fn a_head_over_the_limit_is_rejected() {
    let emulator = Emulator::start().await.expect("it starts");
    let mut stream = TcpStream::connect(address(&emulator))
        .await
        .expect("a connection");
    let head = format!("GET / HTTP/1.1\r\nhost: x\r\nlong: {}", "y".repeat(100_000));
    // The server can close the connection before all bytes are sent.
    let _ = stream.write_all(head.as_bytes()).await;
    let mut answer = vec![0; 4096];
    let length = stream.read(&mut answer).await.expect("it is answered");
    let answer = String::from_utf8_lossy(&answer[..length]);
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}
