//! Merges the rows of several targets: in order, up to `TOP`, with partial aggregates merged.
//!
//! The gateway refuses ordered queries and aggregates across partitions (400/1004), and answers
//! others one partition after another, a page each (.NET client,
//! `DefaultDocumentQueryExecutionContext.ExecuteOnceAsync`). So the client queries the ranges itself,
//! concurrently. It reads ahead only as much as the order requires.

use cdb_model::query::aggregate::Groups;
use cdb_model::query::statement::{RowForm, Statement};
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::container::context::ContainerContext;
use crate::container::query::reach::Reach;
use crate::container::query::row::RowReader;
use crate::container::query::source::{Position, QueryRequest, Source, Target};
use crate::error::{Error, Result};

/// The most rows of one page of the service that a position skips.
const MOST_GIVEN: usize = 10_000;

/// A query in progress over its targets.
#[derive(Debug)]
pub(super) struct Merge {
    request: QueryRequest,
    reader: RowReader,
    sources: Vec<Source>,
    /// The aggregates so far. A field, so that a failed page does not lose the pages before it.
    groups: Option<Groups>,
    /// How many rows `TOP` still allows.
    left: Option<usize>,
    done: bool,
    /// Whether targets are read one after the other if the query has no order, so that no row is
    /// read and discarded.
    pub one_at_a_time: bool,
    /// The number of targets left out, because they do not answer.
    pub left_out: usize,
    has_answer: bool,
}

/// The read position of a query: how many rows `TOP` still allows, and the positions of its targets.
/// Stored as an array, which is shorter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Progress(Option<usize>, Vec<Position>);

impl Merge {
    pub(super) fn new(statement: Statement, request: QueryRequest, targets: Vec<Target>) -> Self {
        let groups = match &statement.form {
            RowForm::Aggregates { kinds, grouped } => Some(Groups::new(kinds.clone(), *grouped)),
            RowForm::Document | RowForm::ValueWithKeys => None,
        };
        Self {
            groups,
            request,
            reader: RowReader {
                form: statement.form,
                order: statement.order,
                merging: targets.len() > 1,
            },
            sources: targets.into_iter().map(Source::new).collect(),
            left: statement.top.and_then(|top| usize::try_from(top).ok()),
            done: false,
            one_at_a_time: false,
            left_out: 0,
            has_answer: false,
        }
    }

    /// Continues a query at `progress`. Returns `None` when the query has another scope or
    /// aggregates, which no page ends, or `progress` has more positions than there are partitions.
    pub(super) fn resumed(
        statement: Statement,
        request: QueryRequest,
        progress: Progress,
        reach: &Reach,
    ) -> Option<Self> {
        let Progress(left, positions) = progress;
        // `progress` comes from outside and must not decide how many requests are sent.
        let aggregates = matches!(statement.form, RowForm::Aggregates { .. });
        let is_endless = positions.iter().any(|position| position.2 > MOST_GIVEN);
        if aggregates || is_endless || positions.len() > reach.ranges().len().max(1) {
            return None;
        }
        let positions = positions.into_iter();
        let sources: Option<Vec<_>> = positions
            .map(|position| Source::resumed(|range| reach.target(range), position))
            .collect();
        let mut merge = Self::new(statement, request, Vec::new());
        merge.sources = sources?;
        merge.reader.merging = merge.sources.len() > 1;
        merge.left = match (merge.left, left) {
            (Some(top), Some(left)) => Some(top.min(left)),
            (top, _) => top,
        };
        Some(merge)
    }

    /// Returns the read position; `None` at the end.
    pub(super) fn progress(&self) -> Option<Progress> {
        let rest = self.sources.iter().filter(|source| !source.is_drained());
        let positions: Vec<_> = rest.map(Source::position).collect();
        let more = !(self.done || self.left == Some(0) || positions.is_empty());
        more.then_some(Progress(self.left, positions))
    }

    /// Returns the next rows, from one to `most`; `None` at the end. Aggregates are returned all at
    /// once.
    pub(super) async fn next_rows(
        &mut self,
        context: &ContainerContext,
        most: usize,
    ) -> Result<Option<Vec<Box<RawValue>>>> {
        if self.done || self.left == Some(0) {
            return Ok(None);
        }
        let mut rows = if self.groups.is_some() {
            self.aggregates(context).await?
        } else {
            let most = most.min(self.left.unwrap_or(usize::MAX));
            self.fill(context, most).await?;
            self.take_ready(most)
        };
        if let Some(left) = &mut self.left {
            rows.truncate(*left);
            *left -= rows.len();
        }
        self.done |= rows.is_empty();
        Ok((!rows.is_empty()).then_some(rows))
    }

    /// Requests a page from every source that needs one, concurrently. With `one_at_a_time` and
    /// without an order, only from the first source that has rows, and at most `most` rows: a
    /// position then continues a page of the service, and does not count rows, which may be deleted
    /// since.
    async fn fill(&mut self, context: &ContainerContext, most: usize) -> Result<()> {
        let (request, reader) = (&self.request, &self.reader);
        if request.leaves_out {
            return self.fill_available(context).await;
        }
        if self.one_at_a_time && reader.order.is_empty() {
            while let Some(source) = self.sources.first_mut() {
                source.fill(context, request, most, reader).await?;
                if !source.is_drained() {
                    break;
                }
                self.sources.remove(0);
            }
            return Ok(());
        }
        let empty = self.sources.iter_mut().filter(|source| source.needs_page());
        try_join_all(empty.map(|source| source.fill(context, request, usize::MAX, reader))).await?;
        self.sources.retain(|source| !source.is_drained());
        Ok(())
    }

    /// Requests a page from every source that needs one, concurrently. Leaves out sources that do
    /// not answer.
    ///
    /// # Errors
    /// When the service refuses the query, or no source answers.
    async fn fill_available(&mut self, context: &ContainerContext) -> Result<()> {
        let (request, reader) = (&self.request, &self.reader);
        let fills = self.sources.iter_mut().map(async |source| {
            match source.fill(context, request, usize::MAX, reader).await {
                Err(error) if error.is_transient() && !error.is_partition_split() => {
                    source.leave_out();
                    Ok(Some(error))
                }
                filled => filled.map(|()| None),
            }
        });
        let failures = try_join_all(fills).await?;
        let count = failures.len();
        let mut failures: Vec<_> = failures.into_iter().flatten().collect();
        self.left_out += failures.len();
        self.has_answer |= failures.len() < count;
        self.sources.retain(|source| !source.is_drained());
        match failures.pop() {
            Some(error) if !self.has_answer => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns up to `most` rows whose order is certain: until a source needs another page.
    fn take_ready(&mut self, most: usize) -> Vec<Box<RawValue>> {
        let in_any_order = self.reader.order.is_empty() || self.sources.len() == 1;
        if in_any_order {
            let sources = self.sources.iter_mut();
            let rows = sources.flat_map(|source| std::iter::from_fn(|| source.take()));
            return rows.take(most).map(|row| row.json).collect();
        }
        let mut ready = Vec::new();
        while ready.len() < most && !self.sources.iter().any(Source::needs_page) {
            let heads = self.sources.iter().enumerate();
            let heads = heads.filter_map(|(at, source)| Some((at, source.first()?)));
            // The earlier range wins a tie, so that pages are reproducible.
            let first = heads.min_by(|(_, a), (_, b)| self.reader.compare(a, b));
            match first
                .map(|(at, _)| at)
                .and_then(|at| self.sources[at].take())
            {
                Some(row) => ready.push(row.json),
                None => break,
            }
        }
        ready
    }

    /// Returns the aggregates, merged from the rows of all sources and pages.
    async fn aggregates(&mut self, context: &ContainerContext) -> Result<Vec<Box<RawValue>>> {
        while !self.sources.is_empty() {
            self.fill(context, usize::MAX).await?;
            let sources = self.sources.iter_mut();
            let rows = sources.flat_map(|source| std::iter::from_fn(|| source.take()));
            for row in rows {
                let mut groups = self.groups.iter_mut();
                let added = groups.try_for_each(|groups| groups.add(row.json.get()));
                added.map_err(|_| Error::protocol("answer to an aggregate has another form"))?;
            }
            self.sources.retain(|source| !source.is_drained());
        }
        self.done = true;
        let rows = self
            .groups
            .take()
            .map(Groups::into_rows)
            .unwrap_or_default();
        rows.iter()
            .map(|row| serde_json::value::to_raw_value(row).map_err(Error::decode))
            .collect()
    }
}
