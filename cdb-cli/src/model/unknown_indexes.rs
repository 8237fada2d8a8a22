//! Indexes of paths that a model does not have. A command that knows only the document types of this
//! project cannot tell whether documents of a program need them.

use std::fmt;

use cdb_client::database::Difference;
use cdb_model::Container;
use cdb_model::policy::{IndexingPolicy, PolicyDifference};
use cdb_model::shape::DocumentShape;
use cdb_provider::coordination::change_feed::ChangeFeedState;
use cdb_provider::documents::Durable;
use cdb_work::Work;
use serde::Serialize;

use crate::model::Model;
use crate::output::counted;

/// The most indexes that the text form names.
const NAMED: usize = 5;

/// What to do about such indexes.
pub(crate) const REMEDY: &str = "if a program stores document types of its own here, use the command of that program, `cdb_cli::run::<ITS_CONTAINER>(name)`; \
     otherwise {cdb} policy apply lists and removes the indexes";

/// The indexes and exclusions of a live policy whose paths the model does not have.
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
            let policy = &model.definition.indexing_policy;
            differences.retain(|difference| match setting(difference, policy) {
                Some(setting) => {
                    unknown.push(setting);
                    false
                }
                None => true,
            });
        }
        Self(unknown)
    }
}

/// Returns the index that no query of the model needs, or the exclusion of a path that the model does not
/// have; `None` for other differences, and for the path `/*`, which indexes the documents of this project
/// too.
fn setting(difference: &Difference, model: &IndexingPolicy) -> Option<String> {
    match difference {
        Difference::Indexing(PolicyDifference::SuperfluousPath(path)) if path != "/*" => {
            Some(path.clone())
        }
        Difference::Indexing(PolicyDifference::SuperfluousComposite(paths)) => {
            Some(format!("({paths})"))
        }
        Difference::Indexing(PolicyDifference::SuperfluousExclusion(path)) => {
            let excluded = path.trim_end_matches(['*', '?']);
            let mut indexed = model.included_paths.iter();
            let is_unknown = !indexed.any(|included| included.path.starts_with(excluded));
            is_unknown.then(|| format!("excluded {path}"))
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
        write!(
            f,
            "{} of paths that this command does not know: {}",
            counted(count as u64, "index setting"),
            first.join(", ")
        )?;
        match count.saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
