//! Documents of a container that its model does not declare.

use serde_json::Value;

use super::filter::{Predicate, ValueError};
use super::sql::{self, Projection, QueryParts};
use super::statement::{Fetch, RowForm, Scope, Statement};
use crate::codec_error::DecodeError;
use crate::container::Container;

/// A query for one document that the container's model does not declare, as JSON. For tools that
/// change a container which other programs use too. It reads the index of the discriminator.
#[derive(Clone, Debug)]
pub enum ForeignDocument {
    /// A document whose discriminator is none of these.
    OtherThan(Vec<String>),
    /// A document without a discriminator.
    WithoutType,
}

impl<C: Container> Fetch<C> for ForeignDocument {
    type Row = String;

    fn statement(&self) -> Result<Statement, ValueError> {
        let path = format!("/{}", C::DISCRIMINATOR);
        let declared = match self {
            Self::OtherThan(known) => {
                let known = known.iter().map(|name| Value::from(name.as_str()));
                Predicate::In(path, known.collect())
            }
            Self::WithoutType => Predicate::IsDefined(path),
        };
        let (sql, parameters) = sql::query(&QueryParts {
            projection: &Projection::Document,
            predicate: &Predicate::Not(Box::new(declared)),
            order: &[],
            top: Some(1),
            discriminator: C::DISCRIMINATOR,
        })?;
        Ok(Statement {
            sql,
            parameters,
            scope: Scope::AllPartitions,
            order: Vec::new(),
            top: Some(1),
            form: RowForm::Document,
        })
    }

    fn read_row(&self, json: &str) -> Result<String, DecodeError> {
        Ok(json.to_owned())
    }
}
