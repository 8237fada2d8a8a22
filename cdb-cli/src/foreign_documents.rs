//! Documents that the program does not declare, in a container that it shares with other programs.

use std::marker::PhantomData;

use cdb_client::{DatabaseClient, Error};
use cdb_model::{Container, DecodeError, Fetch, Parameter, RowForm, Scope, Statement, ValueError};
use serde_json::Value;

/// The documents to search for.
#[derive(Clone, Debug)]
pub(crate) enum Foreign {
    /// Those with a discriminator other than these.
    OtherThan(Vec<String>),
    /// Those without a discriminator.
    WithoutType,
}

/// A query for one document.
struct Search<C> {
    foreign: Foreign,
    marker: PhantomData<fn() -> C>,
}

impl<C: Container> Fetch<C> for Search<C> {
    type Row = Value;

    fn statement(&self) -> Result<Statement, ValueError> {
        let property = format!("c[{}]", Value::from(C::DISCRIMINATOR));
        let (filter, parameters) = match &self.foreign {
            Foreign::OtherThan(known) => {
                let name = "@known".to_owned();
                let value = Value::from(known.clone());
                (
                    format!("IS_STRING({property}) AND NOT ARRAY_CONTAINS(@known, {property})"),
                    vec![Parameter { name, value }],
                )
            }
            Foreign::WithoutType => (format!("NOT IS_STRING({property})"), Vec::new()),
        };
        Ok(Statement {
            sql: format!("SELECT TOP 1 * FROM c WHERE {filter}"),
            parameters,
            scope: Scope::AllPartitions,
            order: Vec::new(),
            top: Some(1),
            form: RowForm::Document,
        })
    }

    fn read_row(&self, json: &str) -> Result<Value, DecodeError> {
        // The client has parsed the page, so the row is JSON.
        Ok(serde_json::from_str(json).unwrap_or_default())
    }
}

/// Returns one such document of the container.
pub(crate) async fn find<C: Container>(
    database: DatabaseClient,
    name: String,
    foreign: Foreign,
) -> Result<Option<Value>, Error> {
    let search = Search {
        foreign,
        marker: PhantomData::<fn() -> C>,
    };
    database.container::<C>(&name).query(search).first().await
}
