//! Our emulator, called over loopback HTTP with signed requests like any client.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cdb_emulator::Emulator as Server;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;
use tokio::net::TcpStream;

use crate::exchange::{Answer, Emulator, Request};

/// A running emulator and one connection to it.
#[derive(Debug)]
pub(crate) struct Ours {
    key: Vec<u8>,
    host: String,
    connection: SendRequest<Full<Bytes>>,
    /// Stops when it is dropped.
    _emulator: Server,
}

impl Ours {
    /// Starts one in memory.
    pub(crate) async fn start() -> Self {
        let emulator = Server::start().await.expect("the emulator starts");
        let key = STANDARD.decode(emulator.key()).expect("keys are base64");
        let endpoint = emulator.endpoint();
        let host = endpoint
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .to_owned();
        let stream = TcpStream::connect(&host).await.expect("it listens");
        let (connection, driver) = handshake(TokioIo::new(stream)).await.expect("it is HTTP");
        tokio::spawn(driver);
        Self {
            key,
            host,
            connection,
            _emulator: emulator,
        }
    }

    /// The master key's signature, as "Access control in the Azure Cosmos DB SQL API" has it.
    fn authorization(&self, request: &Request, date: &str) -> String {
        let (resource_type, link) = request.resource.signed();
        let verb = request.method.as_str().to_lowercase();
        let date = date.to_lowercase();
        let text = format!("{verb}\n{resource_type}\n{link}\n{date}\n\n");
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("a key of any length");
        mac.update(text.as_bytes());
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        let plain = format!("type=master&ver=1.0&sig={signature}");
        utf8_percent_encode(&plain, NON_ALPHANUMERIC).to_string()
    }
}

impl Emulator for Ours {
    async fn ask(&mut self, request: &Request) -> Answer {
        let date = httpdate::fmt_http_date(now());
        let mut sent = http::Request::builder()
            .method(&request.method)
            .uri(request.resource.path())
            .header("host", &self.host)
            .header("authorization", self.authorization(request, &date))
            .header("x-ms-date", &date)
            .header("x-ms-version", "2020-07-15");
        for (name, value) in &request.headers {
            sent = sent.header(*name, value);
        }
        let body = Full::new(Bytes::from(request.bytes()));
        let sent = sent.body(body).expect("headers are header text");
        self.connection.ready().await.expect("still connected");
        let answer = self.connection.send_request(sent).await;
        let (head, body) = answer.expect("an answer").into_parts();
        let body = body.collect().await.expect("a whole answer").to_bytes();
        let header = |name| Some(head.headers.get(name)?.to_str().ok()?.to_owned());
        Answer::read(head.status.as_u16(), header, &body)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a client signs with its own clock"
)]
fn now() -> SystemTime {
    SystemTime::now()
}
