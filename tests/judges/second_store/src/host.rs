//! Serves their emulator over HTTP on a loopback port.
//!
//! Their emulator checks no signatures, and has no listener: its driver calls it in the process.

use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, JoinSet};

use crate::Theirs;
use crate::bulk;
use crate::exchange::{Answer, Request};
use crate::shim::{Partitions, Shim};

/// The key of an account on a host: the public key of the vendor's emulator. It is not checked.
pub const KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// The number of locks for partition keys.
const LOCKS: usize = 256;

/// Their emulator on a loopback port. Stops when dropped.
#[derive(Debug)]
pub struct Host {
    endpoint: String,
    serving: JoinHandle<()>,
}

impl Host {
    /// Starts an empty account.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(partitions: Partitions) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let endpoint = format!("http://{}/", listener.local_addr()?);
        let theirs = Theirs::in_regions(&[("East US", &endpoint)]);
        let account = Arc::new(Account {
            shim: Shim::new(theirs, partitions),
            hasher: RandomState::new(),
            locks: std::iter::repeat_with(Mutex::default).take(LOCKS).collect(),
        });
        let serving = tokio::spawn(serve(listener, account));
        Ok(Self { endpoint, serving })
    }

    /// Returns the endpoint, which accepts any key.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, account: Arc<Account>) {
    let mut connections = JoinSet::new();
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            connections.spawn(connection(stream, account.clone()));
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(stream: TcpStream, account: Arc<Account>) {
    // Without it, a small answer waits for the acknowledgement of an earlier one.
    let _slower = stream.set_nodelay(true);
    let service = service_fn(|request| receive(account.clone(), request));
    // A client that leaves is not a failure.
    let _left = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn receive(
    account: Arc<Account>,
    request: http::Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let answer = match body.collect().await {
        Ok(body) => {
            let request = Request {
                method: head.method,
                path: head.uri.path().to_owned(),
                headers: head.headers,
                body: body.to_bytes().to_vec(),
            };
            // A client that leaves does not interrupt its request.
            let answer = tokio::spawn(async move { account.answer(request).await }).await;
            answer.unwrap_or_else(|panic| {
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                Answer::refusal(status, 0, &format!("the emulator panics: {panic}"))
            })
        }
        Err(error) => Answer::refusal(StatusCode::BAD_REQUEST, 0, &error.to_string()),
    };
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    Ok(response)
}

/// An account that receives requests over HTTP.
#[derive(Debug)]
struct Account {
    shim: Shim,
    hasher: RandomState,
    locks: Vec<Mutex<()>>,
}

impl Account {
    async fn answer(&self, request: Request) -> Answer {
        if request.header("authorization").is_none() {
            let message = "Required header 'authorization' is missing.";
            return Answer::refusal(StatusCode::UNAUTHORIZED, 0, message);
        }
        let Some(operations) = bulk::requests(&request) else {
            return self.alone(request).await;
        };
        let mut answers = Vec::new();
        for operation in operations {
            answers.push(self.alone(operation).await);
        }
        let unreadable =
            || Answer::refusal(StatusCode::BAD_REQUEST, 0, "The bulk has no operations.");
        bulk::joined(&answers).unwrap_or_else(unreadable)
    }

    /// Answers a request while no other one writes in its partition key, if it writes.
    async fn alone(&self, request: Request) -> Answer {
        let is_write = request.method != Method::GET && !request.is_query();
        let lock = is_write.then(|| self.lock(&request)).flatten();
        let _alone = match lock {
            Some(lock) => Some(lock.lock().await),
            None => None,
        };
        self.shim.answer(request).await
    }

    /// Returns the lock of the request's partition key. Two keys may share one.
    fn lock(&self, request: &Request) -> Option<&Mutex<()>> {
        let key = request.header("x-ms-documentdb-partitionkey")?;
        let hash = self.hasher.hash_one(key);
        let at = usize::try_from(hash % LOCKS as u64).unwrap_or_default();
        self.locks.get(at)
    }
}
