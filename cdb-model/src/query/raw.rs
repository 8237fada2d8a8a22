//! The documents of a partition, whatever their type.

use super::filter::{Predicate, ValueError};
use super::sql::{self, Projection, QueryParts};
use super::statement::{Fetch, RowForm, Scope, Statement};
use crate::codec_error::DecodeError;
use crate::container::Container;
use crate::partition_key::PartitionKey;

/// A query for all documents of a logical partition, of any type, as JSON with the properties of
/// the service. For tools that copy documents.
#[derive(Clone, Debug)]
pub struct PartitionDocuments(PartitionKey);

impl PartitionDocuments {
    /// The documents with this partition key.
    pub fn of(partition: impl Into<PartitionKey>) -> Self {
        Self(partition.into())
    }
}

impl<C: Container> Fetch<C> for PartitionDocuments {
    type Row = String;

    fn statement(&self) -> Result<Statement, ValueError> {
        let (sql, parameters) = sql::query(&QueryParts {
            projection: &Projection::Document,
            predicate: &Predicate::All,
            order: &[],
            top: None,
            discriminator: C::DISCRIMINATOR,
        })?;
        Ok(Statement {
            sql,
            parameters,
            scope: Scope::Partition(self.0.clone()),
            order: Vec::new(),
            top: None,
            form: RowForm::Document,
        })
    }

    fn read_row(&self, json: &str) -> Result<String, DecodeError> {
        Ok(json.to_owned())
    }
}
