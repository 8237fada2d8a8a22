//! Indexes of paths that a model does not have. A command that knows only the document types of this
//! project cannot tell whether documents of a program need them.

use std::fmt;

use cdb_client::Difference;
use cdb_model::{Container, DocumentShape, PolicyDifference};
use cdb_provider::coordination::ChangeFeedState;
use cdb_provider::documents::Durable;
use cdb_work::Work;
use serde::Serialize;

use crate::model::Model;

/// The most indexes that the text form names.
const NAMED: usize = 5;

/// What to do about such indexes.
pub(crate) const REMEDY: &str = "if a program stores document types of its own here, use the command of that program, `cdb_cli::run::<ITS_CONTAINER>(name)`; \
     otherwise {cdb} policy apply lists and removes the indexes";

/// The indexes of a live policy whose paths the model does not have.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct UnknownIndexes(Vec<String>);

impl UnknownIndexes {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes the indexes from the differences that a command of this model reports. None is removed
    /// if the model has types of a program, because such a command knows what the program needs.
    pub(crate) fn split_off(model: &Model, differences: &mut Vec<Difference>) -> Self {
        let mut unknown = Vec::new();
        if has_only_types_of_this_project(model) {
            differences.retain(|difference| match index(difference) {
                Some(index) => {
                    unknown.push(index);
                    false
                }
                None => true,
            });
        }
        Self(unknown)
    }
}

/// Returns the index that no query of the model needs; `None` for other differences, and for the path
/// `/*`, which indexes the documents of this project too.
fn index(difference: &Difference) -> Option<String> {
    match difference {
        Difference::Indexing(PolicyDifference::SuperfluousPath(path)) if path != "/*" => {
            Some(path.clone())
        }
        Difference::Indexing(PolicyDifference::SuperfluousComposite(paths)) => {
            Some(format!("({paths})"))
        }
        _ => None,
    }
}

fn has_only_types_of_this_project(model: &Model) -> bool {
    let known = [
        Durable::DOCUMENTS,
        Work::DOCUMENTS,
        ChangeFeedState::DOCUMENTS,
    ];
    known.iter().any(|types| {
        let mut documents = model.documents.iter();
        documents.all(|shape| {
            let is_known = |known: &&DocumentShape| {
                (known.name, known.discriminator) == (shape.name, shape.discriminator)
            };
            types.iter().any(is_known)
        })
    })
}

impl fmt::Display for UnknownIndexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, first) = (self.0.len(), self.0.iter().take(NAMED));
        let first: Vec<&str> = first.map(String::as_str).collect();
        let what = if count == 1 { "index" } else { "indexes" };
        write!(
            f,
            "{count} {what} of paths that this command does not know: {}",
            first.join(", ")
        )?;
        match count.saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
