//! Pages for whoever sits at this machine: `/_admin/…` and `/_explorer/…`.
//!
//! They need no signature, so they are answered only where nobody else can ask: over a connection from the loopback
//! address to it, under a loopback name (a page of the internet can point its own name here), and not for other pages
//! that are open in the browser. Faults do not strike them, and they are not counted.

use std::net::IpAddr;

use http::Method;
use serde::Serialize;

use crate::error::ServiceError;
use crate::http_front::Front;
use crate::route::header;
use crate::service::{Answer, Asked};
use crate::{admin, explorer};

/// Whether a path is one of these pages, and not a resource of the account.
pub(crate) fn concerns(path: &str) -> bool {
    ["/_admin", "/_explorer"].iter().any(|prefix| {
        path.strip_prefix(prefix)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Answers a request for one of these pages; `on_loopback` says that both ends of its connection are on this machine.
pub(crate) async fn answer(front: &Front, asked: &Asked, on_loopback: bool) -> Answer {
    page(front, asked, on_loopback)
        .await
        .unwrap_or_else(|error| {
            let answer = Answer {
                status: error.status,
                body: error.body(),
                ..Answer::default()
            };
            answer.with("content-type", JSON)
        })
        .with("cache-control", "no-store")
        .with("x-content-type-options", "nosniff")
}

async fn page(front: &Front, asked: &Asked, on_loopback: bool) -> Result<Answer, ServiceError> {
    guard(asked, on_loopback)?;
    if asked.path.starts_with("/_admin") {
        admin::answer(front, asked).await
    } else {
        explorer::answer(front, asked).await
    }
}

const JSON: &str = "application/json";

/// An answer with a typed body.
pub(crate) fn json<T: Serialize>(body: &T) -> Result<Answer, ServiceError> {
    Ok(Answer {
        status: 200,
        body: serde_json::to_vec(body)?,
        ..Answer::default()
    }
    .with("content-type", JSON))
}

/// A method that a page does not know.
pub(crate) fn not_allowed(method: &Method, allowed: &str) -> ServiceError {
    let message = format!("{method} is not possible here, but {allowed}.");
    ServiceError::new(405, 0, "MethodNotAllowed", message)
}

fn guard(asked: &Asked, on_loopback: bool) -> Result<(), ServiceError> {
    let refuse = |message: &str| Err(ServiceError::new(403, 0, "Forbidden", message));
    if !on_loopback {
        return refuse("This page is for connections from the emulator's own machine.");
    }
    let host = header(&asked.headers, "host").unwrap_or_default();
    if !is_loopback(host) {
        return refuse("This page is called localhost, 127.0.0.1 or [::1].");
    }
    // Browsers name the page that asks; it has to be one of ours.
    let foreign = header(&asked.headers, "origin").is_some_and(|origin| {
        let name = origin.split_once("://").map(|(_, name)| name);
        name != Some(host)
    });
    if foreign {
        return refuse("Pages of other origins may not ask here.");
    }
    Ok(())
}

/// Whether a host, perhaps with its port, is this machine by name.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_loopback_names() {
        for host in [
            "localhost",
            "LocalHost:80",
            "127.0.0.1:8081",
            "127.9.9.9",
            "[::1]:1",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "localhost.evil.com",
            "10.0.0.1",
            "[::2]",
            "127.0.0.1.evil.com:80",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn resources_of_the_account_are_no_pages() {
        assert!(concerns("/_admin/faults") && concerns("/_explorer"));
        assert!(!concerns("/_administer") && !concerns("/dbs/_admin") && !concerns("/"));
    }
}
