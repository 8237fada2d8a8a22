//! The answers of several places as one: merged in order, cut at the top, counts added up.
//!
//! The gateway refuses ordered queries and aggregates across partitions (400/1004), so each range is asked by itself
//! and the rest happens here. Only as much is read ahead as the order needs.

use cdb_model::{RowForm, Statement};
use futures::future::try_join_all;
use serde_json::value::RawValue;

use crate::container::context::ContainerContext;
use crate::container::row::RowReader;
use crate::container::source::{Place, Question, Source};
use crate::error::{Error, Result};

/// A query being read from its places.
#[derive(Debug)]
pub(super) struct Merge {
    question: Question,
    reader: RowReader,
    sources: Vec<Source>,
    /// Counted so far. Kept here, so that a page that could not be had does not lose the pages before it.
    total: u64,
    /// Rows that may still be given out.
    left: Option<usize>,
    done: bool,
}

impl Merge {
    pub(super) fn new(statement: Statement, question: Question, places: Vec<Place>) -> Self {
        Self {
            question,
            reader: RowReader {
                form: statement.form,
                order: statement.order,
                merging: places.len() > 1,
            },
            sources: places.into_iter().map(Source::new).collect(),
            total: 0,
            left: statement.top.and_then(|top| usize::try_from(top).ok()),
            done: false,
        }
    }

    /// The next rows, at least one; `None` at the end.
    pub(super) async fn next_rows(
        &mut self,
        context: &ContainerContext,
    ) -> Result<Option<Vec<Box<RawValue>>>> {
        if self.done || self.left == Some(0) {
            return Ok(None);
        }
        let mut rows = if self.reader.form == RowForm::Count {
            vec![self.total(context).await?]
        } else {
            self.fill(context).await?;
            self.take_ready()
        };
        if let Some(left) = &mut self.left {
            rows.truncate(*left);
            *left -= rows.len();
        }
        self.done |= rows.is_empty();
        Ok((!rows.is_empty()).then_some(rows))
    }

    /// Asks every place that must be asked before anything can be given out, all at once.
    async fn fill(&mut self, context: &ContainerContext) -> Result<()> {
        let (question, reader) = (&self.question, &self.reader);
        let hungry = self.sources.iter_mut().filter(|source| source.is_hungry());
        try_join_all(hungry.map(|source| source.fill(context, question, reader))).await?;
        self.sources.retain(|source| !source.is_drained());
        Ok(())
    }

    /// Rows whose place in the order is certain: as long as no place has to be asked first.
    fn take_ready(&mut self) -> Vec<Box<RawValue>> {
        let in_any_order = self.reader.order.is_empty() || self.sources.len() == 1;
        if in_any_order {
            let drained = self
                .sources
                .iter_mut()
                .flat_map(|source| source.rows.drain(..));
            return drained.map(|row| row.json).collect();
        }
        let mut ready = Vec::new();
        while !self.sources.iter().any(Source::is_hungry) {
            let first = self
                .sources
                .iter_mut()
                .filter(|source| !source.rows.is_empty())
                // The earlier range wins a tie, so that pages are the same each time.
                .min_by(|a, b| self.reader.compare(&a.rows[0], &b.rows[0]));
            match first.and_then(|source| source.rows.pop_front()) {
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
            for row in self
                .sources
                .iter_mut()
                .flat_map(|source| source.rows.drain(..))
            {
                let part = whole_number(row.json.get())
                    .ok_or_else(|| Error::protocol(format!("`{}` is no count", row.json)))?;
                self.total += part;
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
