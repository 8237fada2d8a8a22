//! Access control: every request must name this machine as its host, and one for data or a change
//! must carry the token: other users of this machine reach the port too.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::state::Dashboard;

/// The header in which browsers say which page sends a request:
/// <https://www.w3.org/TR/fetch-metadata/>.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The header that carries the token. A page of another origin cannot send it without a CORS
/// preflight, which this server rejects.
const TOKEN: &str = "x-cdb-token";

/// The content security policy: the page loads files of this server only, and no other page can
/// frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Rejects unauthorized requests, and adds the security headers to each response.
pub(super) async fn check(
    State(dashboard): State<Arc<Dashboard>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match rejection(&dashboard, &request) {
        Some(rejection) => rejection.into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn rejection(dashboard: &Dashboard, request: &Request) -> Option<(StatusCode, &'static str)> {
    let (method, headers) = (request.method(), request.headers());
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    if !host.is_some_and(is_this_machine) {
        return Some((
            StatusCode::MISDIRECTED_REQUEST,
            "the dashboard accepts requests to localhost only",
        ));
    }
    let is_read = method == Method::GET || method == Method::HEAD;
    if is_read && !request.uri().path().starts_with("/api/") {
        // The files of the page are public.
        return None;
    }
    if is_from_another_page(headers) {
        return Some((
            StatusCode::FORBIDDEN,
            "pages of other origins cannot read the dashboard",
        ));
    }
    if !dashboard.token.matches(token(request)) {
        return Some((
            StatusCode::FORBIDDEN,
            "the request has no valid token; open the address that the terminal shows",
        ));
    }
    (!is_read && !dashboard.allows_actions).then_some((
        StatusCode::FORBIDDEN,
        "the dashboard is read-only; start it with --allow-actions",
    ))
}

/// Returns the token of a request: a header, or a parameter of an event stream, for which browsers
/// send no header.
fn token(request: &Request) -> &[u8] {
    if let Some(header) = request.headers().get(TOKEN) {
        return header.as_bytes();
    }
    let parameters = request.uri().query().unwrap_or_default().split('&');
    let mut token = parameters.filter_map(|parameter| parameter.strip_prefix("token="));
    token.next_back().unwrap_or_default().as_bytes()
}

/// Returns `true` if a browser sends the request for a page of another origin. Such a page cannot
/// read the answer, but the request would spend request units.
fn is_from_another_page(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(HeaderValue::as_bytes);
    let is_own_site = |site: &[u8]| [&b"same-origin"[..], b"none"].contains(&site);
    // A tunnel may end TLS, so the scheme is not compared.
    let is_own_origin = |origin: &[u8]| {
        let host = text(HOST).unwrap_or_default();
        [&b"http://"[..], b"https://"]
            .iter()
            .any(|scheme| origin.strip_prefix(*scheme) == Some(host))
    };
    match text(SEC_FETCH_SITE) {
        Some(site) => !is_own_site(site),
        None => text(ORIGIN).is_some_and(|origin| !is_own_origin(origin)),
    }
}

/// Returns `true` if a `Host` header names this machine, with any port: a tunnel may use another
/// port.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    ["localhost", "127.0.0.1", "::1"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_accepted() {
        for host in ["localhost:8090", "127.0.0.1", "[::1]:8090"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example:8090",
            "127.0.0.1.nip.io",
            "[::2]:1",
            "0.0.0.0:8090",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
