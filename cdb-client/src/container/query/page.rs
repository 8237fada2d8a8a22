//! The position of a query, as a text that another request or process can continue from.
//!
//! For each partition with more rows, the text contains the service's continuation of the current
//! page and the number of its rows that were already returned; that page is requested again. The
//! text comes from outside, so it is not trusted: an invalid one is refused here or by the service.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cdb_model::query::statement::{Scope, Statement};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::container::query::merge::Progress;
use crate::error::{Error, Result};
use crate::partitions::PhysicalPartitionId;

/// One page of a query, and the position of the next page. See
/// [`QueryRun::page`](crate::query::QueryRun::page).
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
    pub(super) fn new(statement: &Statement, of: Origin<'_>, progress: &Progress) -> Result<Self> {
        let mut token = fingerprint(statement, of)?.to_vec();
        // Without names: a page of one physical partition has to fit into a URL.
        serde_json::to_writer(&mut token, progress).map_err(Error::encode)?;
        Ok(Self(URL_SAFE_NO_PAD.encode(token)))
    }

    /// Returns the position; `None` if it belongs to another query, container or chosen physical
    /// partition.
    ///
    /// # Errors
    /// When no query created the text.
    pub(super) fn progress(
        &self,
        statement: &Statement,
        of: Origin<'_>,
    ) -> Result<Option<Progress>> {
        let (query, progress) = self.token()?;
        Ok((query == fingerprint(statement, of)?).then_some(progress))
    }

    fn token(&self) -> Result<(Fingerprint, Progress)> {
        let refused = || Error::configuration("continuation was not created by a query");
        let token = URL_SAFE_NO_PAD.decode(&self.0).map_err(|_| refused())?;
        let (query, progress) = token.split_first_chunk().ok_or_else(refused)?;
        let progress = serde_json::from_slice(progress).map_err(|_| refused())?;
        Ok((*query, progress))
    }
}

/// A short hash of a query. Positions in the answers to another query would skip rows.
type Fingerprint = [u8; 6];

/// Where a query reads: its container, and the physical partition that the caller has chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    pub(super) container: &'a str,
    pub(super) range: Option<&'a PhysicalPartitionId>,
}

/// Returns the hash of a statement with its parameters, its scope and its origin.
fn fingerprint(statement: &Statement, of: Origin<'_>) -> Result<Fingerprint> {
    let scope = match &statement.scope {
        Scope::Partition(key) | Scope::Prefix(key) => Some(key.to_header()),
        Scope::AllPartitions => None,
    };
    let Origin { container, range } = of;
    let query = (
        &statement.sql,
        &statement.parameters,
        scope,
        container,
        range,
    );
    let query = serde_json::to_vec(&query).map_err(Error::encode)?;
    let hash = Sha256::digest(query);
    Ok(std::array::from_fn(|at| hash[at]))
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
    use cdb_model::query::statement::RowForm;

    use super::*;

    #[test]
    fn a_text_that_no_query_created_is_refused() {
        let too_short = URL_SAFE_NO_PAD.encode("[null");
        let without_query = URL_SAFE_NO_PAD.encode("[null,[]]");
        for text in ["", "%", "e30", "bnVsbA", &too_short, &without_query] {
            assert!(text.parse::<Continuation>().is_err(), "{text}");
        }
        let empty = URL_SAFE_NO_PAD.encode("123456[null,[]]");
        assert_eq!(empty.parse::<Continuation>().unwrap().to_string(), empty);
    }

    #[test]
    fn a_position_in_one_physical_partition_has_less_than_200_characters() {
        // A continuation of the service, with the position in the index.
        let page = "+RID:~CDoMAKeNlQEKAAAAAAAAAA==#RT:12#TRC:240#ISV:2#IEO:65567#QCF:8#FPC:AQEAAAAAAAAACgAAAAAAAAA=";
        let progress = format!(r#"[1000,[["12","{page}",99]]]"#);
        let progress: Progress = serde_json::from_str(&progress).unwrap();
        let statement = Statement {
            sql: "SELECT * FROM c".to_owned(),
            parameters: Vec::new(),
            scope: Scope::AllPartitions,
            order: Vec::new(),
            top: None,
            form: RowForm::Document,
        };
        let range = PhysicalPartitionId::new("12");
        let of = Origin {
            container: "dbs/db/colls/c",
            range: Some(&range),
        };
        let text = Continuation::new(&statement, of, &progress)
            .unwrap()
            .to_string();
        assert!(text.len() < 200, "{}", text.len());
        let read = text.parse::<Continuation>().unwrap();
        for other in [
            Origin { range: None, ..of },
            Origin {
                container: "dbs/db/colls/d",
                ..of
            },
        ] {
            assert_eq!(read.progress(&statement, other).unwrap(), None);
        }
        assert_eq!(read.progress(&statement, of).unwrap(), Some(progress));
    }
}
