//! One place to ask a query at, page by page: a logical partition, or a physical one.

use std::collections::VecDeque;

use bytes::Bytes;
use cdb_model::{Parameter, PartitionKey, Scope, Statement};
use serde::{Deserialize, Serialize};

use crate::container::context::ContainerContext;
use crate::container::row::{Row, RowReader};
use crate::error::{Error, Result};
use crate::header;
use crate::operation::OperationKind;
use crate::ranges::RangeId;
use crate::request::Request;
use crate::session_token::SessionScope;

/// A charset behind it would be refused.
const QUERY: &str = "application/query+json";

/// Where a source asks. The two headers exclude each other.
#[derive(Clone, Debug)]
pub(super) enum Target {
    Partition(PartitionKey),
    Range(RangeId),
}

/// What is asked, the same for every page.
#[derive(Clone, Debug)]
pub(super) struct QueryRequest {
    body: Bytes,
    page_size: Option<u32>,
    latest_committed: bool,
}

#[derive(Serialize)]
struct QueryBody<'a> {
    query: &'a str,
    parameters: &'a [Parameter],
}

impl QueryRequest {
    /// # Errors
    /// When a parameter cannot be written.
    pub(super) fn new(
        statement: &Statement,
        page_size: Option<u32>,
        latest_committed: bool,
    ) -> Result<Self> {
        let body = serde_json::to_vec(&QueryBody {
            query: &statement.sql,
            parameters: &statement.parameters,
        })
        .map_err(Error::encode)?;
        Ok(Self {
            body: body.into(),
            page_size,
            latest_committed,
        })
    }
}

/// A place, how far it has been read, and what was read ahead.
#[derive(Debug)]
pub(super) struct Source {
    target: Target,
    continuation: Option<String>,
    finished: bool,
    rows: VecDeque<Row>,
    /// What the page in `rows` was asked with, and how many of its rows were given out.
    page: Option<String>,
    given: usize,
    /// Rows that were given out before this source was resumed.
    skip: usize,
}

/// How far a place was read: the page, and how many of its rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Position {
    /// `None` for a logical partition, which the query names.
    range: Option<RangeId>,
    page: Option<String>,
    given: usize,
}

impl Source {
    pub(super) fn new(target: Target) -> Self {
        Self {
            target,
            continuation: None,
            finished: false,
            rows: VecDeque::new(),
            page: None,
            given: 0,
            skip: 0,
        }
    }

    /// Goes on behind the rows that were given out. `scope` is where the query asks.
    pub(super) fn resumed(scope: &Scope, position: Position) -> Option<Self> {
        let target = match (scope, position.range) {
            (Scope::Partition(key), None) => Target::Partition(key.clone()),
            (Scope::AllPartitions, Some(range)) => Target::Range(range),
            _ => return None,
        };
        Some(Self {
            continuation: position.page,
            skip: position.given,
            ..Self::new(target)
        })
    }

    /// How far it was read.
    pub(super) fn position(&self) -> Position {
        let range = match &self.target {
            Target::Partition(_) => None,
            Target::Range(range) => Some(range.clone()),
        };
        // Where nothing is read ahead, the next page is the one to go on with.
        let (page, given) = if self.rows.is_empty() {
            (&self.continuation, self.skip)
        } else {
            (&self.page, self.given)
        };
        Position {
            range,
            page: page.clone(),
            given,
        }
    }

    /// The next row that was read ahead.
    pub(super) fn first(&self) -> Option<&Row> {
        self.rows.front()
    }

    /// Gives it out.
    pub(super) fn take(&mut self) -> Option<Row> {
        let row = self.rows.pop_front()?;
        self.given += 1;
        Some(row)
    }

    /// Nothing here and nothing to come.
    pub(super) fn is_drained(&self) -> bool {
        self.finished && self.rows.is_empty()
    }

    /// Whether it has to be asked before its next row is known.
    pub(super) fn needs_page(&self) -> bool {
        !self.finished && self.rows.is_empty()
    }

    /// Asks until there is a row or none will come. Empty pages with a continuation are normal: the service stops a
    /// page after five seconds, found or not.
    pub(super) async fn fill(
        &mut self,
        context: &ContainerContext,
        query: &QueryRequest,
        reader: &RowReader,
    ) -> Result<()> {
        while self.needs_page() {
            let response = context.send(&self.request(context, query)?).await?;
            let rows = reader.read(response.text()?);
            let mut rows = VecDeque::from(rows.map_err(|error| response.unusable(error))?);
            let skipped = self.skip.min(rows.len());
            rows.drain(..skipped);
            self.rows.append(&mut rows);
            (self.skip, self.given) = (self.skip - skipped, skipped);
            self.page = self.continuation.take();
            self.continuation = response.continuation();
            self.finished = self.continuation.is_none();
        }
        Ok(())
    }

    fn request(&self, context: &ContainerContext, query: &QueryRequest) -> Result<Request> {
        let mut request = context
            .items_request(OperationKind::Query, QUERY, query.body.clone())
            .header(header::IS_QUERY, "True");
        request = match &self.target {
            Target::Partition(key) => request.in_partition(key)?.session(context.session_of(key)),
            Target::Range(range) => request
                .in_range(range.as_str())?
                .header(header::CROSS_PARTITION, "True")
                .session(SessionScope::Range(range.to_string())),
        };
        if query.latest_committed {
            request = request.header(header::READ_CONSISTENCY, "LatestCommitted");
        }
        // -1 leaves the size of a page to the service, which knows what fits.
        request = match query.page_size {
            Some(size) => request.header_value(header::MAX_ITEMS, &size.to_string())?,
            None => request.header(header::MAX_ITEMS, "-1"),
        };
        match &self.continuation {
            Some(token) => request.header_value(header::CONTINUATION, token),
            None => Ok(request),
        }
    }
}
