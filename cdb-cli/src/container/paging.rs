//! Pages of two lists, the second behind the first.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use cdb_client::Page;
use cdb_client::query::Continuation;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

/// The start of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) enum PageStart {
    First(Option<Continuation>),
    Second(Option<Continuation>),
}

/// A page of rows, and the start of the next page.
#[derive(Debug)]
pub(crate) struct RowPage<T> {
    pub rows: Vec<T>,
    pub next: Option<PageStart>,
}

/// Two lists of a container.
#[async_trait]
pub(crate) trait TwoLists: Sync {
    type Row: Send;

    /// Returns a page of the first list; no rows if the container has no such list.
    async fn first(
        &self,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<Self::Row>, Failure>;

    async fn second(
        &self,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<Self::Row>, Failure>;

    /// Whether the container has the second list.
    fn has_second(&self) -> bool;

    /// Returns a page of both lists.
    async fn page(
        &self,
        rows: usize,
        from: Option<PageStart>,
    ) -> Result<RowPage<Self::Row>, Failure> {
        let mut found = Vec::new();
        let from = match from.unwrap_or(PageStart::First(None)) {
            PageStart::Second(from) => from,
            PageStart::First(from) => {
                let page = self.first(rows, from.as_ref()).await?;
                found = page.rows;
                if page.next.is_some() {
                    let next = Some(PageStart::First(page.next));
                    return Ok(RowPage { rows: found, next });
                }
                None
            }
        };
        let left = rows.saturating_sub(found.len());
        let next = if !self.has_second() {
            None
        } else if left == 0 {
            Some(PageStart::Second(from))
        } else {
            let page = self.second(left, from.as_ref()).await?;
            found.extend(page.rows);
            page.next.map(|next| PageStart::Second(Some(next)))
        };
        Ok(RowPage { rows: found, next })
    }
}

impl fmt::Display for PageStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (list, at) = match self {
            Self::First(at) => (1, at),
            Self::Second(at) => (2, at),
        };
        match at {
            Some(at) => write!(f, "{list}.{at}"),
            None => write!(f, "{list}"),
        }
    }
}

impl FromStr for PageStart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (list, at) = match text.split_once('.') {
            Some((list, at)) => (list, Some(at)),
            None => (text, None),
        };
        let at = at.map(str::parse).transpose();
        let at = at.map_err(|error: cdb_client::Error| error.to_string())?;
        match list {
            "1" => Ok(Self::First(at)),
            "2" => Ok(Self::Second(at)),
            _ => Err(format!(
                "`{text}` is not the start of a page; use `next` of the previous page's JSON"
            )),
        }
    }
}

impl From<PageStart> for String {
    fn from(start: PageStart) -> Self {
        start.to_string()
    }
}

impl TryFrom<String> for PageStart {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}
