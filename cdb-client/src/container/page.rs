//! The position of a query, as a text that another request or process can continue from.
//!
//! For each partition with more rows, the text contains the service's continuation of the current
//! page and the number of its rows that were already returned; that page is requested again. The
//! text comes from outside, so it is not trusted: an invalid one is refused here or by the service.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cdb_model::{Scope, Statement};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::container::merge::Progress;
use crate::error::{Error, Result};

/// One page of a query, and the position of the next page. See
/// [`QueryRun::page`](crate::QueryRun::page).
#[derive(Clone, Debug)]
pub struct Page<Row> {
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// The position of the next page; `None` after the last one. The last page may be empty.
    pub next: Option<Continuation>,
}

/// The position of a query. Its text consists of letters, digits, `-` and `_`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[doc(alias = "continuation token")]
pub struct Continuation(String);

impl Continuation {
    pub(super) fn new(statement: &Statement, progress: Progress) -> Result<Self> {
        let token = Token {
            query: fingerprint(statement)?,
            progress,
        };
        let json = serde_json::to_vec(&token).map_err(Error::encode)?;
        Ok(Self(URL_SAFE_NO_PAD.encode(json)))
    }

    /// Returns the position; `None` if it belongs to another query.
    ///
    /// # Errors
    /// When no query created the text.
    pub(super) fn progress(&self, statement: &Statement) -> Result<Option<Progress>> {
        let token = self.token()?;
        let is_same = token.query == fingerprint(statement)?;
        Ok(is_same.then_some(token.progress))
    }

    fn token(&self) -> Result<Token> {
        let refused = || Error::configuration("continuation was not created by a query");
        let json = URL_SAFE_NO_PAD.decode(&self.0).map_err(|_| refused())?;
        serde_json::from_slice(&json).map_err(|_| refused())
    }
}

/// The content of a continuation.
#[derive(Serialize, Deserialize)]
struct Token {
    /// The fingerprint of the query. Positions in the answers to another query would skip rows.
    query: String,
    #[serde(flatten)]
    progress: Progress,
}

/// Returns a short hash of a statement with its parameters and its scope.
fn fingerprint(statement: &Statement) -> Result<String> {
    const BYTES: usize = 6;
    let scope = match &statement.scope {
        Scope::Partition(key) | Scope::Prefix(key) => Some(key.to_header()),
        Scope::AllPartitions => None,
    };
    let query = (&statement.sql, &statement.parameters, scope);
    let query = serde_json::to_vec(&query).map_err(Error::encode)?;
    Ok(URL_SAFE_NO_PAD.encode(&Sha256::digest(query)[..BYTES]))
}

impl fmt::Display for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Continuation {
    type Err = Error;

    /// # Errors
    /// When no query created this text.
    fn from_str(text: &str) -> Result<Self> {
        let continuation = Self(text.to_owned());
        continuation.token()?;
        Ok(continuation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_no_query_created_is_refused() {
        let without_query = URL_SAFE_NO_PAD.encode(r#"{"left":null,"places":[]}"#);
        for text in ["", "%", "e30", "bnVsbA", &without_query] {
            assert!(text.parse::<Continuation>().is_err(), "{text}");
        }
        let empty = URL_SAFE_NO_PAD.encode(r#"{"query":"","left":null,"places":[]}"#);
        assert_eq!(empty.parse::<Continuation>().unwrap().to_string(), empty);
    }
}
