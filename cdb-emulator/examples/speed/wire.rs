//! A minimal blocking client with one connection, written from the protocol. It uses little
//! processor time, so that the benchmark measures the server.

use std::error::Error;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;

/// The container of all requests.
pub(crate) const CONTAINER: &str = "dbs/db/colls/c";

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) method: &'a str,
    /// The resource type and link for the signature.
    pub(crate) signed: (&'a str, &'a str),
    pub(crate) path: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: &'a str,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Name and value, the name in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// Returns the value of a header; empty if it is missing.
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: BufReader<TcpStream>,
    mac: Hmac<Sha256>,
    /// The date of requests, and when it was formatted.
    date: (String, Instant),
}

impl Wire {
    /// Connects with the account's key.
    pub(crate) fn connect(address: SocketAddr, key: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(600)))?;
        let key = STANDARD.decode(key).map_err(invalid)?;
        Ok(Self {
            stream: BufReader::new(stream),
            mac: Hmac::new_from_slice(&key).map_err(invalid)?,
            date: (httpdate::fmt_http_date(now()), Instant::now()),
        })
    }

    /// Sends a request and reads its answer.
    pub(crate) fn send(&mut self, call: &Call<'_>) -> io::Result<Reply> {
        if self.date.1.elapsed() > Duration::from_secs(60) {
            self.date = (httpdate::fmt_http_date(now()), Instant::now());
        }
        let date = &self.date.0;
        let (kind, link) = call.signed;
        let mut mac = self.mac.clone();
        let method = call.method.to_lowercase();
        mac.update(format!("{method}\n{kind}\n{link}\n{}\n\n", date.to_lowercase()).as_bytes());
        let token = STANDARD.encode(mac.finalize().into_bytes());
        let token = format!("type=master&ver=1.0&sig={token}");
        let mut text = format!(
            "{} /{} HTTP/1.1\r\nhost: localhost\r\nauthorization: {}\r\nx-ms-date: {date}\r\n\
             x-ms-version: 2020-07-15\r\ncontent-length: {}\r\n",
            call.method,
            call.path,
            utf8_percent_encode(&token, NON_ALPHANUMERIC),
            call.body.len(),
        );
        for (name, value) in call.headers {
            text.push_str(name);
            text.push_str(": ");
            text.push_str(value);
            text.push_str("\r\n");
        }
        text.push_str("\r\n");
        text.push_str(call.body);
        self.stream.get_mut().write_all(text.as_bytes())?;
        self.reply()
    }

    fn reply(&mut self) -> io::Result<Reply> {
        let status = self.line()?;
        let status = status.get(9..12).and_then(|status| status.parse().ok());
        let mut reply = Reply {
            status: status.ok_or_else(|| invalid("no status line"))?,
            headers: Vec::new(),
            body: Vec::new(),
        };
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| invalid("no header"))?;
            let name = name.to_ascii_lowercase();
            reply.headers.push((name, value.trim().to_owned()));
        }
        let length = reply.header("content-length").parse().unwrap_or(0);
        reply.body.resize(length, 0);
        self.stream.read_exact(&mut reply.body)?;
        Ok(reply)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.trim_end().len());
        Ok(line)
    }

    /// Sends `POST …/docs` for a partition key.
    pub(crate) fn post(
        &mut self,
        key: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<Reply> {
        let key = format!("[\"{key}\"]");
        let mut all = vec![("x-ms-documentdb-partitionkey", &*key)];
        all.extend(headers);
        self.post_anywhere(&all, body)
    }

    /// Sends `POST …/docs`; the headers set the scope.
    pub(crate) fn post_anywhere(
        &mut self,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<Reply> {
        self.send(&Call {
            method: "POST",
            signed: ("docs", CONTAINER),
            path: &format!("{CONTAINER}/docs"),
            headers,
            body,
        })
    }

    /// Sends a request for one document.
    pub(crate) fn item(
        &mut self,
        method: &str,
        (key, id): (&str, &str),
        body: &str,
    ) -> io::Result<Reply> {
        let key = format!("[\"{key}\"]");
        let path = format!("{CONTAINER}/docs/{id}");
        self.send(&Call {
            method,
            signed: ("docs", &path),
            path: &path,
            headers: &[("x-ms-documentdb-partitionkey", &key)],
            body,
        })
    }

    /// Creates the database and the container, with these properties beside id and partition key.
    pub(crate) fn define(&mut self, definition: &str) -> io::Result<()> {
        let container = format!(
            r#"{{"id":"c","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}}{definition}}}"#
        );
        for (kind, link, path, body) in [
            ("dbs", "", "dbs", r#"{"id":"db"}"#),
            ("colls", "dbs/db", "dbs/db/colls", &*container),
        ] {
            let reply = self.send(&Call {
                method: "POST",
                signed: (kind, link),
                path,
                headers: &[],
                body,
            })?;
            if reply.status != 201 {
                return Err(invalid(String::from_utf8_lossy(&reply.body)));
            }
        }
        Ok(())
    }
}

fn invalid(what: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// Returns the time for signatures.
#[expect(
    clippy::disallowed_methods,
    reason = "it signs like any client, with its own clock"
)]
fn now() -> SystemTime {
    SystemTime::now()
}
