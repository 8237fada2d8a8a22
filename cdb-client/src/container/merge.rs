//! The answers of several places as one: merged in order, cut at the top, counts added up.
//!
//! The gateway refuses ordered queries and aggregates across partitions (400/1004), so each range is asked by itself
//! and the rest happens here. Only as much is read ahead as the order needs.

use cdb_model::{RowForm, Statement};
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::container::context::ContainerContext;
use crate::container::row::RowReader;
use crate::container::source::{Position, QueryRequest, Source, Target};
use crate::error::{Error, Result};

/// A query being read from its places.
#[derive(Debug)]
pub(super) struct Merge {
    request: QueryRequest,
    reader: RowReader,
    sources: Vec<Source>,
    /// Counted so far. Kept here, so that a page that could not be had does not lose the pages before it.
    total: u64,
    /// Rows that may still be given out.
    left: Option<usize>,
    done: bool,
    /// Whether places are asked one after the other where the order allows it, so that nothing is read and thrown away.
    pub one_at_a_time: bool,
}

/// How far a query was read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Progress {
    left: Option<usize>,
    #[serde(rename = "places")]
    positions: Vec<Position>,
}

impl Merge {
    pub(super) fn new(statement: Statement, request: QueryRequest, targets: Vec<Target>) -> Self {
        Self {
            request,
            reader: RowReader {
                form: statement.form,
                order: statement.order,
                merging: targets.len() > 1,
            },
            sources: targets.into_iter().map(Source::new).collect(),
            total: 0,
            left: statement.top.and_then(|top| usize::try_from(top).ok()),
            done: false,
            one_at_a_time: false,
        }
    }

    /// Goes on where a query was left. `None` when the query has another scope, or more places are named
    /// than the `most` that it can have.
    pub(super) fn resumed(
        statement: Statement,
        request: QueryRequest,
        progress: Progress,
        most: usize,
    ) -> Option<Self> {
        // It comes from outside: whoever wrote it shall not choose how many requests go out.
        if progress.positions.len() > most {
            return None;
        }
        let scope = statement.scope.clone();
        let positions = progress.positions.into_iter();
        let sources: Option<Vec<_>> = positions
            .map(|position| Source::resumed(&scope, position))
            .collect();
        let mut merge = Self::new(statement, request, Vec::new());
        merge.sources = sources?;
        merge.reader.merging = merge.sources.len() > 1;
        merge.left = match (merge.left, progress.left) {
            (Some(top), Some(left)) => Some(top.min(left)),
            (top, _) => top,
        };
        Some(merge)
    }

    /// How far it was read; `None` at the end.
    pub(super) fn progress(&self) -> Option<Progress> {
        let rest = self.sources.iter().filter(|source| !source.is_drained());
        let positions: Vec<_> = rest.map(Source::position).collect();
        let more = !(self.done || self.left == Some(0) || positions.is_empty());
        more.then_some(Progress {
            left: self.left,
            positions,
        })
    }

    /// The next rows, from one to `most`; `None` at the end.
    pub(super) async fn next_rows(
        &mut self,
        context: &ContainerContext,
        most: usize,
    ) -> Result<Option<Vec<Box<RawValue>>>> {
        if self.done || self.left == Some(0) {
            return Ok(None);
        }
        let mut rows = if self.reader.form == RowForm::Count {
            vec![self.total(context).await?]
        } else {
            self.fill(context).await?;
            self.take_ready(most.min(self.left.unwrap_or(usize::MAX)))
        };
        if let Some(left) = &mut self.left {
            rows.truncate(*left);
            *left -= rows.len();
        }
        self.done |= rows.is_empty();
        Ok((!rows.is_empty()).then_some(rows))
    }

    /// Asks every place that must be asked before anything can be given out, all at once; in no order and where nothing
    /// shall be read in vain, the first one that has rows.
    async fn fill(&mut self, context: &ContainerContext) -> Result<()> {
        let (request, reader) = (&self.request, &self.reader);
        if self.one_at_a_time && reader.order.is_empty() {
            while let Some(source) = self.sources.first_mut() {
                source.fill(context, request, reader).await?;
                if !source.is_drained() {
                    break;
                }
                self.sources.remove(0);
            }
            return Ok(());
        }
        let empty = self.sources.iter_mut().filter(|source| source.needs_page());
        try_join_all(empty.map(|source| source.fill(context, request, reader))).await?;
        self.sources.retain(|source| !source.is_drained());
        Ok(())
    }

    /// Rows whose place in the order is certain: as long as no place has to be asked first.
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
            // The earlier range wins a tie, so that pages are the same each time.
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

    /// The sum of all partial counts, over all places and pages.
    async fn total(&mut self, context: &ContainerContext) -> Result<Box<RawValue>> {
        while !self.sources.is_empty() {
            self.fill(context).await?;
            let sources = self.sources.iter_mut();
            for row in sources.flat_map(|source| std::iter::from_fn(|| source.take())) {
                let part = whole_number(row.json.get())
                    .ok_or_else(|| Error::protocol(format!("`{}` is no count", row.json)))?;
                self.total = self.total.saturating_add(part);
            }
            self.sources.retain(|source| !source.is_drained());
        }
        self.done = true;
        RawValue::from_string(self.total.to_string()).map_err(Error::decode)
    }
}

/// The service computes in doubles, so a whole number may come as `3.0`.
fn whole_number(json: &str) -> Option<u64> {
    let number: serde_json::Number = serde_json::from_str(json).ok()?;
    number.as_u64().or_else(|| {
        let double = number.as_f64().filter(|double| double.fract() == 0.0)?;
        format!("{double:.0}").parse().ok()
    })
}
