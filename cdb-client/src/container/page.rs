//! Where a query was left, as a text that can be handed out and come back later: in the address of a web page, from
//! another process.
//!
//! It holds, for each place that has more, the service's own continuation of the page that was being given out and how many of
//! its rows were; that page is asked for again. It comes back from outside, so nothing in it is trusted: at worst the
//! service refuses it.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::container::merge::Progress;
use crate::error::{Error, Result};

/// Some rows of a query, and where the next ones begin.
///
/// ```
/// use cdb_model::Query;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, order};
/// # shop::with_shop(async |shop| {
///
/// for number in 1..=3 {
///     shop.create(&order(number)).await?;
/// }
/// let orders = Query::<Order>::across_partitions();
/// let page = shop.query(orders.clone()).page(2, None).await?;
/// assert_eq!(page.rows.len(), 2);
///
/// let text = page.next.expect("there is more").to_string(); // goes into a URL as it is
/// let rest = shop.query(orders).page(2, Some(&text.parse()?)).await?;
/// assert_eq!(rest.rows.len(), 1);
/// # Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Page<Row> {
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// Where to go on; `None` when these were the last ones. A last page may be empty.
    pub next: Option<Continuation>,
}

/// Where a query was left. Its text is made of letters, digits, `-` and `_`.
///
/// ```
/// use cdb_client::{Continuation, ErrorKind};
///
/// // As it came back in the address of a web page: nobody's word is taken for it.
/// let refused = "tampered".parse::<Continuation>().unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::Configuration); // for the caller a 400; see `Page` for the way it goes
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[doc(alias = "continuation token")]
pub struct Continuation(String);

impl Continuation {
    pub(super) fn of(progress: &Progress) -> Result<Self> {
        let json = serde_json::to_vec(progress).map_err(Error::encode)?;
        Ok(Self(URL_SAFE_NO_PAD.encode(json)))
    }

    pub(super) fn progress(&self) -> Result<Progress> {
        let refused = || Error::configuration("the text to go on from was not made by a query");
        let json = URL_SAFE_NO_PAD.decode(&self.0).map_err(|_| refused())?;
        serde_json::from_slice(&json).map_err(|_| refused())
    }
}

impl fmt::Display for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Continuation {
    type Err = Error;

    /// # Errors
    /// When no query has made this text.
    fn from_str(text: &str) -> Result<Self> {
        let continuation = Self(text.to_owned());
        continuation.progress()?;
        Ok(continuation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_query_has_made_is_refused() {
        for text in ["", "%", "e30", "bnVsbA"] {
            assert!(text.parse::<Continuation>().is_err(), "{text}");
        }
        let empty = URL_SAFE_NO_PAD.encode(r#"{"left":null,"places":[]}"#);
        assert_eq!(empty.parse::<Continuation>().unwrap().to_string(), empty);
    }
}
