//! Continuation tokens of queries: opaque, and bound to the query, its parameters and the rows that it was asked of.
//!
//! A token of a physical partition that was split since is good for its children, each of which goes on with its own
//! part, as long as it names a document to go on behind. One that counts the rows of an aggregation does not say which
//! of them were whose, and is refused.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::scope::Reach;
use crate::error::ServiceError;
use crate::plan::Key;
use crate::route::header;
use crate::service::Asked;

/// Where the next page begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Position {
    /// Rows handed out so far.
    pub(super) skip: usize,
    /// The last document of the page before, for queries that stream.
    pub(super) after: Option<After>,
    /// A document behind it that is not done.
    pub(super) begun: Option<Begun>,
    /// The learned path whose index gave the order: another one learned since must not change it between pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) learned: Option<String>,
    /// The index that it is read by where there was a choice: another one must not change the order between pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) index: Option<String>,
    /// Which piece of the plan it is in.
    #[serde(default, skip_serializing_if = "is_first")]
    pub(super) piece: usize,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference to the field"
)]
fn is_first(piece: &usize) -> bool {
    *piece == 0
}

/// A document that a join makes several rows of, some of which are handed out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Begun {
    pub(super) pk: String,
    pub(super) id: String,
    pub(super) rows: usize,
}

/// A document to go on behind, with its place in the sort.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct After {
    pub(super) pk: String,
    pub(super) id: String,
    pub(super) keys: Vec<Key>,
}

/// What a token is bound to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Binding {
    /// A digest of the query and its parameters.
    query: String,
    /// The hash space that was asked.
    min: String,
    max: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Token {
    #[serde(flatten)]
    position: Position,
    #[serde(flatten)]
    binding: Binding,
}

impl Binding {
    /// The binding of a request.
    pub(super) fn of(asked: &Asked, reach: &Reach<'_>) -> Self {
        let digest = Sha256::digest(&asked.body);
        let (min, max) = reach.bounds.clone();
        Self {
            query: STANDARD.encode(&digest[..12]),
            min,
            max,
        }
    }

    /// Where this request's page begins: at the beginning without a token.
    pub(super) fn position(&self, asked: &Asked) -> Result<Position, ServiceError> {
        let text = header(&asked.headers, "x-ms-continuation").unwrap_or_default();
        if text.is_empty() {
            return Ok(Position::default());
        }
        let malformed =
            || ServiceError::bad_request("Invalid Continuation Token: it is malformed.");
        let bytes = STANDARD.decode(text).map_err(|_| malformed())?;
        let token: Token = serde_json::from_slice(&bytes).map_err(|_| malformed())?;
        if token.binding == *self {
            return Ok(token.position);
        }
        let other = |what: &str| {
            ServiceError::bad_request(format!("Invalid Continuation Token: it is {what}."))
        };
        if token.binding.query != self.query {
            return Err(other("of another query"));
        }
        if self.min < token.binding.min || token.binding.max < self.max {
            return Err(other("of another partition"));
        }
        if token.position.after.is_none() && token.position.piece == 0 {
            return Err(other("from before a split; begin the query anew"));
        }
        Ok(token.position)
    }

    /// The token that names a position.
    pub(super) fn token(&self, position: Position) -> Result<String, ServiceError> {
        let token = Token {
            position,
            binding: self.clone(),
        };
        Ok(STANDARD.encode(serde_json::to_vec(&token)?))
    }
}
