//! Continuation tokens of queries: opaque, and bound to the query, its parameters and its scope.
//!
//! After a split, a token of the parent is valid for its children if it names the last
//! document: each child continues with its own part. A token that counts the rows of an aggregation
//! is rejected, because the rows of the children cannot be told apart.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::plan::{self, Key};
use crate::protocol::{Request, ServiceError, header};
use crate::sql::ast::Select;

/// The start of a page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::op) struct Position {
    /// The number of rows returned so far.
    pub(in crate::op) skip: usize,
    /// The last complete document of the previous page, for queries that stream.
    pub(in crate::op) after: Option<LastDocument>,
    /// The document after it, if only some of its rows were returned.
    pub(in crate::op) partial: Option<PartialDocument>,
}

impl Position {
    /// Returns the start of the requested page: the first page if the request has no token.
    pub(in crate::op) fn of(
        request: &Request,
        binding: impl FnOnce() -> Binding,
    ) -> Result<Self, ServiceError> {
        match header(&request.headers, "x-ms-continuation") {
            None | Some("") => Ok(Self::default()),
            Some(text) => binding().position(text),
        }
    }
}

/// A document with several rows by a join, some of which were returned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::op) struct PartialDocument {
    pub(in crate::op) pk: String,
    pub(in crate::op) id: String,
    pub(in crate::op) rows: usize,
}

/// The last document, with its sort keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::op) struct LastDocument {
    pub(in crate::op) pk: String,
    pub(in crate::op) id: String,
    pub(in crate::op) keys: Vec<Key>,
}

/// A range of effective partition keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::op) struct EpkBounds {
    pub(in crate::op) min: String,
    pub(in crate::op) max: String,
}

impl EpkBounds {
    pub(in crate::op) fn new(min: impl Into<String>, max: impl Into<String>) -> Self {
        Self {
            min: min.into(),
            max: max.into(),
        }
    }
}

/// The query and the scope that a token is bound to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::op) struct Binding {
    /// A digest of the query and its parameters.
    query: String,
    #[serde(flatten)]
    bounds: EpkBounds,
}

#[derive(Debug, Serialize, Deserialize)]
struct Token {
    #[serde(flatten)]
    position: Position,
    #[serde(flatten)]
    binding: Binding,
}

fn token(text: &str) -> Result<Token, ServiceError> {
    let token = STANDARD.decode(text).ok();
    let token = token.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    token.ok_or_else(|| ServiceError::bad_request("Invalid Continuation Token: it is malformed."))
}

impl Binding {
    /// Returns the binding of a request.
    ///
    /// A client resumes a sorted query with another filter, so the token of a sorted query is bound
    /// to everything but the filter.
    pub(in crate::op) fn of(request: &Request, bounds: EpkBounds, select: &Select) -> Self {
        let digest = if select.order_by.is_empty() || !plan::streams(select) {
            Sha256::digest(&request.body)
        } else {
            let unfiltered = Select {
                filter: None,
                ..select.clone()
            };
            Sha256::digest(unfiltered.to_string())
        };
        Self {
            query: STANDARD.encode(&digest[..12]),
            bounds,
        }
    }

    /// Returns the bounds of the token of a request.
    pub(in crate::op) fn bounds(request: &Request) -> Result<Option<EpkBounds>, ServiceError> {
        match header(&request.headers, "x-ms-continuation") {
            None | Some("") => Ok(None),
            Some(text) => Ok(Some(token(text)?.binding.bounds)),
        }
    }

    /// Returns the position of a token.
    fn position(&self, text: &str) -> Result<Position, ServiceError> {
        let token = token(text)?;
        if token.binding == *self {
            return Ok(token.position);
        }
        let other = |what: &str| {
            ServiceError::bad_request(format!("Invalid Continuation Token: it is {what}."))
        };
        if token.binding.query != self.query {
            return Err(other("of another query"));
        }
        let (here, whole) = (&self.bounds, &token.binding.bounds);
        if here.min < whole.min || whole.max < here.max {
            return Err(other("of another partition"));
        }
        if token.position.after.is_none() {
            return Err(other("from before a split; restart the query"));
        }
        Ok(token.position)
    }

    /// Returns the token of a position.
    pub(in crate::op) fn token(&self, position: Position) -> Result<String, ServiceError> {
        let token = Token {
            position,
            binding: self.clone(),
        };
        Ok(STANDARD.encode(serde_json::to_vec(&token)?))
    }
}
