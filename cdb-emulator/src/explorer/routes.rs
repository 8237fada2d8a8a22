//! Which path is what.

use http::Method;

use super::{ask, tree};
use crate::error::ServiceError;
use crate::http_front::Front;
use crate::local::{json, not_allowed};
use crate::service::{Answer, Asked};

/// The page may load what this server has, and nothing else; no other page may put it into a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Answers a request below `/_explorer`.
pub(crate) async fn answer(front: &Front, asked: &Asked) -> Result<Answer, ServiceError> {
    let service = &front.service;
    match (asked.path.as_str(), &asked.method) {
        ("/_explorer", &Method::GET) => Ok(Answer::empty(308).with("location", "/_explorer/")),
        ("/_explorer/", &Method::GET) => Ok(file("text/html", include_str!("page.html"))),
        ("/_explorer/page.js", &Method::GET) => {
            Ok(file("text/javascript", include_str!("page.js")))
        }
        ("/_explorer/page.css", &Method::GET) => Ok(file("text/css", include_str!("page.css"))),
        ("/_explorer/api/tree", &Method::GET) => json(&tree::read(service).await?),
        ("/_explorer/api/query", &Method::POST) => {
            let question = serde_json::from_slice(&asked.body)?;
            json(&ask::query(service, question).await?)
        }
        ("/_explorer/api/query", method) => Err(not_allowed(method, "POST")),
        (
            "/_explorer"
            | "/_explorer/"
            | "/_explorer/page.js"
            | "/_explorer/page.css"
            | "/_explorer/api/tree",
            method,
        ) => Err(not_allowed(method, "GET")),
        _ => Err(ServiceError::new(
            404,
            0,
            "NotFound",
            "The Explorer is at /_explorer/.",
        )),
    }
}

fn file(kind: &str, text: &str) -> Answer {
    Answer {
        status: 200,
        body: text.as_bytes().to_vec(),
        ..Answer::default()
    }
    .with("content-type", format!("{kind}; charset=utf-8"))
    .with("content-security-policy", POLICY)
    .with("referrer-policy", "no-referrer")
}
