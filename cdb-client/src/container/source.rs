//! One place to ask a query at, page by page: a logical partition, or a physical one.

use std::collections::VecDeque;

use bytes::Bytes;
use cdb_model::{Parameter, PartitionKey, Statement};
use serde::Serialize;

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
pub(super) enum Place {
    Partition(PartitionKey),
    Range(RangeId),
}

/// What is asked, the same for every page.
#[derive(Clone, Debug)]
pub(super) struct Question {
    body: Bytes,
    page_size: Option<u32>,
    latest_committed: bool,
}

#[derive(Serialize)]
struct QueryBody<'a> {
    query: &'a str,
    parameters: &'a [Parameter],
}

impl Question {
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
    place: Place,
    continuation: Option<String>,
    finished: bool,
    pub rows: VecDeque<Row>,
}

impl Source {
    pub(super) fn new(place: Place) -> Self {
        Self {
            place,
            continuation: None,
            finished: false,
            rows: VecDeque::new(),
        }
    }

    /// Nothing here and nothing to come.
    pub(super) fn is_drained(&self) -> bool {
        self.finished && self.rows.is_empty()
    }

    /// Whether it has to be asked before its next row is known.
    pub(super) fn is_hungry(&self) -> bool {
        !self.finished && self.rows.is_empty()
    }

    /// Asks until there is a row or none will come. Empty pages with a continuation are normal: the service stops a
    /// page after five seconds, found or not.
    pub(super) async fn fill(
        &mut self,
        context: &ContainerContext,
        question: &Question,
        reader: &RowReader,
    ) -> Result<()> {
        while self.is_hungry() {
            let response = context.send(&self.request(context, question)?).await?;
            self.rows.extend(reader.read(response.text()?)?);
            self.continuation = response.continuation();
            self.finished = self.continuation.is_none();
        }
        Ok(())
    }

    fn request(&self, context: &ContainerContext, question: &Question) -> Result<Request> {
        let mut request = context
            .items_request(OperationKind::Query, QUERY, question.body.clone())
            .header(header::IS_QUERY, "True");
        request = match &self.place {
            Place::Partition(key) => request.in_partition(key)?.session(context.session_of(key)),
            Place::Range(range) => request
                .in_range(range.as_str())?
                .header(header::CROSS_PARTITION, "True")
                .session(SessionScope::Range(range.to_string())),
        };
        if question.latest_committed {
            request = request.header(header::READ_CONSISTENCY, "LatestCommitted");
        }
        // -1 leaves the size of a page to the service, which knows what fits.
        request = match question.page_size {
            Some(size) => request.header_value(header::MAX_ITEMS, &size.to_string())?,
            None => request.header(header::MAX_ITEMS, "-1"),
        };
        match &self.continuation {
            Some(token) => request.header_value(header::CONTINUATION, token),
            None => Ok(request),
        }
    }
}
