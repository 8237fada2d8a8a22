//! A request to the emulator and its answer.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};

use crate::Theirs;

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// The path, with the names percent-encoded.
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(crate) fn is_true(&self, header: &str) -> bool {
        self.header(header)
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    pub(crate) fn is_query(&self) -> bool {
        self.is_true("x-ms-documentdb-isquery")
    }

    /// Returns the read of a document in the partition of this request.
    pub(crate) fn read(&self, path: String) -> Self {
        let kept = ["x-ms-documentdb-partitionkey", "x-ms-version"];
        let kept = kept
            .into_iter()
            .filter_map(|name| Some((HeaderName::from_static(name), self.headers.get(name)?)));
        Self {
            method: Method::GET,
            path,
            headers: kept.map(|(name, value)| (name, value.clone())).collect(),
            body: Vec::new(),
        }
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// A refusal. A sub-status of 0 is not sent.
    pub(crate) fn refusal(status: StatusCode, substatus: u32, message: &str) -> Self {
        let code = status.canonical_reason().unwrap_or_default();
        let code = code.replace(' ', "");
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        headers.insert("x-ms-request-charge", HeaderValue::from_static("1"));
        if substatus > 0 {
            headers.insert("x-ms-substatus", substatus.into());
        }
        Self {
            status,
            headers,
            body: json!({ "code": code, "message": message })
                .to_string()
                .into_bytes(),
        }
    }

    /// Returns the body; `Null` if it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

impl Theirs {
    /// Sends a request to the region that accepts writes.
    pub(crate) async fn answer(&self, request: Request) -> Answer {
        let mut url = self.gateway().clone();
        url.set_path(&request.path);
        let headers = request.headers.iter().map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes());
            (name.as_str().to_owned(), value.into_owned())
        });
        let answer = self.send(&request.method, url, headers, request.body);
        let answer = answer.await;
        let headers = answer.headers().iter();
        let headers = headers.filter_map(|(name, value)| {
            let name = HeaderName::try_from(name.as_str()).ok()?;
            Some((name, HeaderValue::try_from(value.as_str()).ok()?))
        });
        Answer {
            status: StatusCode::from_u16(answer.status().into()).unwrap_or_default(),
            headers: headers.collect::<HeaderMap>(),
            body: answer.body().as_ref().to_vec(),
        }
    }
}
