//! Pages of several lists, one behind the other.

use std::fmt;
use std::str::FromStr;

use cdb_client::query::Continuation;
use cdb_model::Timestamp;
use serde::{Deserialize, Serialize};

use super::kind::List;
use super::row::MessageRow;
use super::source::MessageSource;
use crate::exit::Failure;

/// The start of a page: the number of a list, from zero, and the place in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct PageStart {
    list: usize,
    at: Option<Continuation>,
}

/// A page of messages, and the start of the next page.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MessagePage {
    pub messages: Vec<MessageRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<PageStart>,
    pub now: Timestamp,
}

/// Reads a page, and returns it with the start of the next one.
pub(super) async fn page(
    lists: &[(&dyn MessageSource, List)],
    rows: usize,
    from: Option<PageStart>,
) -> Result<(Vec<MessageRow>, Option<PageStart>), Failure> {
    let first = PageStart { list: 0, at: None };
    let mut start = from.unwrap_or(first);
    if start.list > 0 && start.list >= lists.len() {
        return Err(Failure::usage(invalid(&start.to_string())));
    }
    let mut found = Vec::new();
    while let Some((source, list)) = lists.get(start.list) {
        let left = rows - found.len();
        if left == 0 {
            return Ok((found, Some(start)));
        }
        let page = source.page(*list, left, start.at.as_ref()).await?;
        found.extend(page.rows.into_iter().take(left));
        let PageStart { list, .. } = start;
        start = match page.next {
            Some(next) => {
                let at = Some(next);
                return Ok((found, Some(PageStart { list, at })));
            }
            None => PageStart {
                list: list + 1,
                at: None,
            },
        };
    }
    Ok((found, None))
}

fn invalid(text: &str) -> String {
    format!(
        "`{text}` is not the start of a page of these lists; use `next` of the previous page's JSON, with the same options"
    )
}

impl fmt::Display for PageStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Some(at) => write!(f, "{}.{at}", self.list),
            None => write!(f, "{}", self.list),
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
        Ok(Self {
            list: list.parse().map_err(|_| invalid(text))?,
            at: at.map_err(|error: cdb_client::Error| error.to_string())?,
        })
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
