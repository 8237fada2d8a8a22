//! The pages of a query from one target: a logical partition or a physical one.

use std::collections::VecDeque;

use bytes::Bytes;
use cdb_model::PartitionKey;
use cdb_model::query::statement::{Parameter, Statement};
use serde::{Deserialize, Serialize};

use crate::container::context::ContainerContext;
use crate::container::query::row::{Row, RowReader};
use crate::error::{Error, RequestKind, Result};
use crate::partitions::{EpkPart, PhysicalPartitionId, SessionScope};
use crate::protocol::{Request, header};

/// The service refuses it with a charset.
pub(super) const QUERY: &str = "application/query+json";

/// The target of a query. The headers of a partition and a range exclude each other.
#[derive(Clone, Debug)]
pub(super) enum Target {
    Partition(PartitionKey),
    /// A physical partition, or the part of one within these bounds.
    Range(PhysicalPartitionId, Option<EpkPart>),
}

/// The parts of a query request that all pages share.
#[derive(Clone, Debug)]
pub(super) struct QueryRequest {
    body: Bytes,
    page_size: Option<u32>,
    latest_committed: bool,
    /// Whether requests have a deadline while other partitions answer.
    pub in_time: bool,
    /// Whether partitions that do not answer are left out.
    pub leaves_out: bool,
}

#[derive(Serialize)]
struct QueryBody<'a> {
    query: &'a str,
    parameters: &'a [Parameter],
}

impl QueryRequest {
    /// # Errors
    /// When a parameter cannot be serialized.
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
            in_time: false,
            leaves_out: false,
        })
    }
}

impl QueryRequest {
    /// Returns the JSON of the statement.
    pub(super) fn into_body(self) -> Bytes {
        self.body
    }
}

/// A target, its read position, and the rows read ahead.
#[derive(Debug)]
pub(super) struct Source {
    target: Target,
    continuation: Option<String>,
    finished: bool,
    rows: VecDeque<Row>,
    /// The continuation that requested the page in `rows`, and how many of its rows were returned.
    page: Option<String>,
    given: usize,
    /// Rows of the next page that were returned before this source was resumed.
    skip: usize,
}

/// The read position of a target: the physical partition (`None` for a logical partition, which the
/// query names), the page, and how many of its rows were returned. Stored as an array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Position(
    Option<PhysicalPartitionId>,
    Option<String>,
    pub(super) usize,
);

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

    /// Continues after the rows that were returned. `target` returns the target of a position; `None`
    /// when the position does not fit the scope of the query.
    pub(super) fn resumed(
        target: impl FnOnce(Option<PhysicalPartitionId>) -> Option<Target>,
        position: Position,
    ) -> Option<Self> {
        let Position(range, continuation, skip) = position;
        Some(Self {
            continuation,
            skip,
            ..Self::new(target(range)?)
        })
    }

    /// Returns the read position.
    pub(super) fn position(&self) -> Position {
        let range = match &self.target {
            Target::Partition(_) => None,
            Target::Range(range, _) => Some(range.clone()),
        };
        // Without rows read ahead, the next page continues the query.
        let (page, given) = if self.rows.is_empty() {
            (&self.continuation, self.skip)
        } else {
            (&self.page, self.given)
        };
        Position(range, page.clone(), given)
    }

    /// Returns the next row that was read ahead.
    pub(super) fn first(&self) -> Option<&Row> {
        self.rows.front()
    }

    /// Removes and returns the next row that was read ahead.
    pub(super) fn take(&mut self) -> Option<Row> {
        let row = self.rows.pop_front()?;
        self.given += 1;
        Some(row)
    }

    /// Whether no row is left.
    pub(super) fn is_drained(&self) -> bool {
        self.finished && self.rows.is_empty()
    }

    /// Whether the next row requires another page.
    pub(super) fn needs_page(&self) -> bool {
        !self.finished && self.rows.is_empty()
    }

    /// Requests pages until there is a row or the query ends. Empty pages with a continuation are
    /// normal: the service ends a page after five seconds even without a row. A page has at most
    /// `most` rows.
    pub(super) async fn fill(
        &mut self,
        context: &ContainerContext,
        query: &QueryRequest,
        most: usize,
        reader: &RowReader,
    ) -> Result<()> {
        while self.needs_page() {
            let request = self.request(context, query, most)?;
            // Before the deadline, which is for the answer.
            let admission = context.admit(request.kind).await;
            let response = match &self.target {
                Target::Range(range, _) if query.in_time => {
                    context.query_in_time(range, request, admission).await?
                }
                _ => context.send_admitted(&request, admission).await?,
            };
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

    /// Leaves out the rest of the rows.
    pub(super) fn leave_out(&mut self) {
        self.rows.clear();
        self.finished = true;
    }

    fn request(
        &self,
        context: &ContainerContext,
        query: &QueryRequest,
        most: usize,
    ) -> Result<Request> {
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let mut request = context
            .items_request(RequestKind::Query, QUERY, query.body.clone())
            .header(header::IS_QUERY, "True");
        request = match &self.target {
            Target::Partition(key) => request.in_partition(key)?.session(context.session_of(key)),
            Target::Range(range, bounds) => request
                .in_part(range, bounds.as_ref())?
                .header(header::CROSS_PARTITION, "True")
                .session(SessionScope::Range(range.to_string())),
        };
        if query.latest_committed {
            request = request.header(header::READ_CONSISTENCY, "LatestCommitted");
        }
        // -1 leaves the page size to the service.
        request = match query.page_size {
            Some(size) => request.header_value(header::MAX_ITEMS, &size.min(most).to_string())?,
            None => request.header(header::MAX_ITEMS, "-1"),
        };
        match &self.continuation {
            Some(token) => request.header_value(header::CONTINUATION, token),
            None => Ok(request),
        }
    }
}
