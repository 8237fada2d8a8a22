//! The user-defined functions of queries.

use crate::error::ServiceError;
use crate::route::Scripts;
use crate::script::{Functions, Source};
use crate::sql::ast::Select;
use crate::sql::{self, Context};
use crate::store::{Connection, Container, NamedResource};

/// Adds the functions that a query calls to its context. Fails if one of them does not exist.
pub(super) fn add(
    context: &mut Context,
    select: &Select,
    (connection, container): (&Connection, &Container),
) -> Result<(), ServiceError> {
    let names = sql::user_functions(select);
    if names.is_empty() {
        return Ok(());
    }
    let parent = container.scripts(Scripts::Functions.segment());
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        found.push(
            NamedResource::find(connection, &parent, &name).map_err(|error| {
                if error.status == 404 {
                    sql::unknown_function(&name)
                } else {
                    error
                }
            })?,
        );
    }
    let sources: Vec<Source<'_>> = found.iter().map(Source::of).collect();
    context.set_functions(Box::new(Functions::compile(&sources)?));
    Ok(())
}
