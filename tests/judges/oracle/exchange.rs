//! An HTTP request and its answer, the same bytes for both emulators.

use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// The database that all sequences use.
pub(crate) const DATABASE: &str = "oracle";

/// The resource of a request.
#[derive(Clone, Debug)]
pub(crate) enum Resource {
    Databases,
    Containers,
    Container(String),
    Documents(String),
    Document(String, String),
}

impl Resource {
    /// The path, each name percent-encoded once.
    pub(crate) fn path(&self) -> String {
        let encoded = |name: &str| utf8_percent_encode(name, NON_ALPHANUMERIC).to_string();
        match self {
            Self::Databases => "/dbs".to_owned(),
            Self::Containers => format!("/dbs/{DATABASE}/colls"),
            Self::Container(name) => format!("/dbs/{DATABASE}/colls/{name}"),
            Self::Documents(container) => format!("/dbs/{DATABASE}/colls/{container}/docs"),
            Self::Document(container, id) => {
                format!("/dbs/{DATABASE}/colls/{container}/docs/{}", encoded(id))
            }
        }
    }

    /// Resource type and link for the signature.
    pub(crate) fn signed(&self) -> (&'static str, String) {
        match self {
            Self::Databases => ("dbs", String::new()),
            Self::Containers => ("colls", format!("dbs/{DATABASE}")),
            Self::Container(name) => ("colls", format!("dbs/{DATABASE}/colls/{name}")),
            Self::Documents(name) => ("docs", format!("dbs/{DATABASE}/colls/{name}")),
            Self::Document(name, id) => ("docs", format!("dbs/{DATABASE}/colls/{name}/docs/{id}")),
        }
    }
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) resource: Resource,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Option<Value>,
}

impl Request {
    pub(crate) fn new(method: Method, resource: Resource) -> Self {
        Self {
            method,
            resource,
            headers: Vec::new(),
            body: None,
        }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn json(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// The body's bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.body
            .as_ref()
            .map(|body| body.to_string().into_bytes())
            .unwrap_or_default()
    }
}

/// An answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// 0 where the header is missing.
    pub(crate) substatus: u32,
    pub(crate) etag: Option<String>,
    pub(crate) continuation: Option<String>,
    /// `Null` for an empty body.
    pub(crate) body: Value,
}

impl Answer {
    /// Reads an answer; `header` gives a header's text by its name.
    pub(crate) fn read(
        status: u16,
        header: impl Fn(&'static str) -> Option<String>,
        body: &[u8],
    ) -> Self {
        let parsed = serde_json::from_slice(body);
        let text = || Value::String(String::from_utf8_lossy(body).into_owned());
        Self {
            status,
            substatus: header("x-ms-substatus")
                .and_then(|text| text.parse().ok())
                .unwrap_or_default(),
            etag: header("etag"),
            continuation: header("x-ms-continuation"),
            body: match body {
                [] => Value::Null,
                _ => parsed.unwrap_or_else(|_| text()),
            },
        }
    }
}

/// Something that answers requests.
pub(crate) trait Emulator {
    async fn ask(&mut self, request: &Request) -> Answer;
}
