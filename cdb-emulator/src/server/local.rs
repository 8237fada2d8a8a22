//! The pages `/_admin/…` and `/_explorer/…`, for users of this machine.
//!
//! They need no signature, so the server answers them only to requests from this machine: the
//! connection is between loopback addresses, the host is a loopback name (a page of the internet
//! can point its own name here), and the origin is no other page of the browser. Faults do not
//! apply to them, and the log does not count them.

use std::net::IpAddr;
use std::sync::Arc;

use super::admin;
use super::state::ServerState;
use crate::explorer;
use crate::protocol::{JSON, Request, Response, ServiceError, header};

/// Returns whether a path names one of these pages and not a resource of the account.
pub(crate) fn is_local(path: &str) -> bool {
    ["/_admin", "/_explorer"].iter().any(|prefix| {
        path.strip_prefix(prefix)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Responds to a request for a page; `on_loopback` says that both ends of the connection are on
/// this machine.
pub(crate) async fn serve_page(
    server: &Arc<ServerState>,
    request: &Request,
    on_loopback: bool,
) -> Response {
    guarded_page(server, request, on_loopback)
        .await
        .unwrap_or_else(|error| Response::error(&error).with("content-type", JSON))
        .with("cache-control", "no-store")
        .with("x-content-type-options", "nosniff")
}

async fn guarded_page(
    server: &Arc<ServerState>,
    request: &Request,
    on_loopback: bool,
) -> Result<Response, ServiceError> {
    guard(request, on_loopback)?;
    if request.path.starts_with("/_admin") {
        admin::serve_controls(server, request).await
    } else {
        explorer::serve_explorer(&server.service, request).await
    }
}

fn guard(request: &Request, on_loopback: bool) -> Result<(), ServiceError> {
    let refuse = |message: &str| Err(ServiceError::new(403, 0, "Forbidden", message));
    if !on_loopback {
        return refuse("This page is only for connections from the emulator's own machine.");
    }
    let host = header(&request.headers, "host").unwrap_or_default();
    if !is_loopback(host) {
        return refuse("Open this page by the name localhost, 127.0.0.1 or [::1].");
    }
    // Browsers send the origin of the page that makes the request; it has to be this server.
    let foreign = header(&request.headers, "origin").is_some_and(|origin| {
        let name = origin.split_once("://").map(|(_, name)| name);
        name != Some(host)
    });
    if foreign {
        return refuse("Pages of other origins may not send requests here.");
    }
    Ok(())
}

/// Returns whether a host, with or without a port, names this machine.
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
    fn resources_of_the_account_are_not_local_pages() {
        assert!(is_local("/_admin/faults") && is_local("/_explorer"));
        assert!(!is_local("/_administer") && !is_local("/dbs/_admin") && !is_local("/"));
    }
}
