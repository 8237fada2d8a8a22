//! Requests with headers and bodies of the caller, for what the typed requests do not cover.

use bytes::Bytes;
use cdb_model::Container;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method};

use crate::container::ContainerClient;
use crate::credential::SigningContext;
use crate::error::{Error, ErrorKind, Result};
use crate::partitions::SessionScope;
use crate::protocol::header;
use crate::transport::{HttpRequest, HttpResponse};

/// The target of a raw request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawTarget<'a> {
    /// The definition of the container.
    Container,
    /// The items of the container.
    Items,
    /// The item with this id.
    Item(&'a str),
}

impl<C: Container> ContainerClient<C> {
    /// Sends one request to the endpoint of the client, once. Adds its date, the authorization and
    /// the session token, and nothing else: neither `x-ms-version` nor a content type.
    ///
    /// # Errors
    /// When the request cannot be authorized, or no answer arrives. A refusal is an answer.
    pub async fn send_raw(
        &self,
        method: Method,
        target: RawTarget<'_>,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<HttpResponse> {
        let (container, parts) = (&self.context.resource, &self.context.pipeline.parts);
        let resource = match target {
            RawTarget::Container => container.clone(),
            RawTarget::Items => container.items(),
            RawTarget::Item(id) => container.item(id)?,
        };
        let date = self.context.pipeline.clock.http_date();
        let signing = SigningContext {
            verb: &method,
            resource_type: resource.kind,
            resource_link: &resource.link,
            date: &date,
        };
        let authorization = parts.credential.authorize(&signing).await?;
        headers.insert(AUTHORIZATION, authorization.header());
        let mut add = |name, value: String| {
            let value = HeaderValue::from_str(&value);
            headers.insert(name, value.expect("dates and session tokens are ASCII"));
        };
        add(header::DATE, date);
        if let Some(session) = self.context.sessions.header(&SessionScope::Container) {
            add(header::SESSION_TOKEN, session);
        }
        let request = HttpRequest {
            method,
            url: format!("{}{}", parts.endpoint, resource.path),
            headers,
            body,
        };
        let sent = parts.transport.send(request).await;
        let answer = sent.map_err(|error| {
            Error::new(ErrorKind::Unavailable, error.message.clone()).with_source(error)
        })?;
        let session = answer.headers.get(header::SESSION_TOKEN);
        if let Some(session) = session.and_then(|token| token.to_str().ok()) {
            self.context.sessions.update(session);
        }
        Ok(answer)
    }
}
