//! Writes whole statements and conditions.

use std::fmt::Write as _;

use super::parameter::Parameter;
use super::parts::QueryParts;
use super::predicate::Predicate;
use super::score::{RankTerm, Score};
use super::value_error::ValueError;
use super::writer::{Values, Writer};
use crate::shape::Direction;

/// Writes a query.
///
/// # Errors
/// When the predicate has a value that cannot be serialized.
pub(crate) fn query(parts: &QueryParts<'_>) -> Result<(String, Vec<Parameter>), ValueError> {
    let mut writer = Writer::new(parts.discriminator, Values::Parameters);
    writer.text.push_str("SELECT ");
    if let Some(top) = parts.top {
        // A number of the program, not data. The service does not allow a parameter here
        // everywhere.
        let _written = write!(writer.text, "TOP {top} ");
    }
    writer.projection(parts);
    writer.text.push_str(" FROM c");
    if let Some(joins) = parts.joins {
        writer.text.push(' ');
        writer.fragment(joins);
    }
    if *parts.predicate != Predicate::All {
        writer.text.push_str(" WHERE ");
        writer.predicate(parts.predicate);
    }
    writer.group_by(parts.projection);
    if !parts.order.is_empty() {
        writer.text.push_str(" ORDER BY ");
        writer.separated(parts.order, |writer, term| {
            writer.target(&term.target);
            writer.text.push_str(match term.direction {
                Direction::Ascending => " ASC",
                Direction::Descending => " DESC",
            });
        });
    }
    match writer.invalid {
        None => Ok((writer.text, writer.parameters)),
        Some(error) => Err(error),
    }
}

/// Writes a search: the documents with the best scores, best first. A fusion and a score by words
/// are no text that the service executes; it answers with a plan.
///
/// # Errors
/// When the predicate has a value that cannot be serialized.
pub(crate) fn search(
    predicate: &Predicate,
    discriminator: &str,
    terms: &[RankTerm],
    top: u32,
) -> Result<(String, Vec<Parameter>), ValueError> {
    let mut writer = Writer::new(discriminator, Values::Parameters);
    let _written = write!(writer.text, "SELECT TOP {top} ");
    let distance = match terms {
        [term] if matches!(term.score, Score::Distance(_)) => Some(term),
        _ => None,
    };
    match distance {
        Some(term) => writer.document_with_score(term),
        None => writer.text.push('*'),
    }
    writer.text.push_str(" FROM c");
    if *predicate != Predicate::All {
        writer.text.push_str(" WHERE ");
        writer.predicate(predicate);
    }
    writer.text.push_str(match distance {
        Some(_) => " ORDER BY ",
        None => " ORDER BY RANK ",
    });
    match terms {
        [term] => writer.rank(term),
        several => writer.fused(several),
    }
    match writer.invalid {
        None => Ok((writer.text, writer.parameters)),
        Some(error) => Err(error),
    }
}

/// Writes the condition of a patch.
///
/// # Errors
/// When the predicate has a value that cannot be serialized.
pub(crate) fn patch_condition(predicate: &Predicate) -> Result<String, ValueError> {
    // A patch names its document, so the condition has no type and needs no discriminator.
    let mut writer = Writer::new("", Values::Literals);
    writer.text.push_str("from c where ");
    writer.predicate(predicate);
    match writer.invalid {
        None => Ok(writer.text),
        Some(error) => Err(error),
    }
}

/// Writes a condition for a message.
pub(crate) fn readable(predicate: &Predicate, discriminator: &str) -> String {
    let mut writer = Writer::new(discriminator, Values::Literals);
    writer.predicate(predicate);
    writer.text
}
