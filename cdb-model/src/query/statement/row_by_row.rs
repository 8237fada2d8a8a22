//! Queries whose unreadable rows do not hide the others.

use super::fetch::{Fetch, Statement};
use crate::container::Container;
use crate::document::DecodeError;
use crate::sql::ValueError;
use crate::stored::Unreadable;

/// A query whose rows are `Ok`, or [`Unreadable`] for a row that does not match its type.
#[derive(Clone, Debug)]
pub struct RowByRow<Q>(pub Q);

impl<C: Container, Q: Fetch<C>> Fetch<C> for RowByRow<Q> {
    type Row = Result<Q::Row, Unreadable>;

    fn statement(&self) -> Result<Statement, ValueError> {
        self.0.statement()
    }

    fn read_row(&self, json: &str) -> Result<Self::Row, DecodeError> {
        let row = self.0.read_row(json);
        Ok(row.map_err(|reason| Unreadable::new::<C>(json, reason)))
    }
}
