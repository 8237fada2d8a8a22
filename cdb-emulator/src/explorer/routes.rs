//! The routes.

use std::sync::Arc;

use http::Method;

use super::{document, query, tree};
use crate::account::Service;
use crate::protocol::{Request, Response, ServiceError};

/// The page may load content of this server only, and other pages may not frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Responds to a request below `/_explorer`.
pub(crate) async fn serve_explorer(
    service: &Arc<Service>,
    request: &Request,
) -> Result<Response, ServiceError> {
    match (request.path.as_str(), &request.method) {
        ("/_explorer", &Method::GET) => Ok(Response::empty(308).with("location", "/_explorer/")),
        ("/_explorer/", &Method::GET) => Ok(file("text/html", include_str!("page.html"))),
        ("/_explorer/page.js", &Method::GET) => {
            Ok(file("text/javascript", include_str!("page.js")))
        }
        ("/_explorer/page.css", &Method::GET) => Ok(file("text/css", include_str!("page.css"))),
        ("/_explorer/api/tree", &Method::GET) => Response::typed(&tree::read(service).await?),
        ("/_explorer/api/query", &Method::POST) => {
            let body = request.json()?;
            Response::typed(&query::run(service, body).await?)
        }
        ("/_explorer/api/document", &(Method::PUT | Method::DELETE)) => {
            let body = request.json()?;
            document::change(service, request, body).await
        }
        ("/_explorer/api/document", method) => {
            Err(ServiceError::method_not_allowed(method, "PUT and DELETE"))
        }
        ("/_explorer/api/query", method) => Err(ServiceError::method_not_allowed(method, "POST")),
        (
            "/_explorer"
            | "/_explorer/"
            | "/_explorer/page.js"
            | "/_explorer/page.css"
            | "/_explorer/api/tree",
            method,
        ) => Err(ServiceError::method_not_allowed(method, "GET")),
        _ => Err(ServiceError::new(
            404,
            0,
            "NotFound",
            "The Explorer is at /_explorer/.",
        )),
    }
}

fn file(kind: &str, text: &str) -> Response {
    Response {
        status: 200,
        body: text.as_bytes().to_vec(),
        ..Response::default()
    }
    .with("content-type", format!("{kind}; charset=utf-8"))
    .with("content-security-policy", POLICY)
    .with("referrer-policy", "no-referrer")
}
