//! The rules of fields with a mark: at most one field has it, and each has a field of its own.

use darling::error::Accumulator;
use proc_macro2::Span;

use crate::diag::{Mistakes, mistake};
use crate::document::model::{DocumentModel, FieldModel, Given};

type Mark = fn(&FieldModel) -> Option<Span>;

pub(super) fn at_most_one_each(model: &DocumentModel, errors: &mut Accumulator) {
    let marks: [(Mark, &str, &str); 4] = [
        (|field| field.lease, "lease", "a document has one lease"),
        (
            |field| field.soft_delete,
            "`soft_delete`",
            "a document has one time of deletion",
        ),
        (|field| field.created_at, "`created_at`", "keep one"),
        (|field| field.updated_at, "`updated_at`", "keep one"),
    ];
    for (mark, word, rule) in marks {
        for second in model.fields.iter().filter_map(mark).skip(1) {
            let text = format!("second {word} on `{}`; {rule}", model.ident);
            errors.push(mistake(second, text));
        }
    }
}

pub(super) fn soft_delete_is_indexed_once(field: &FieldModel, errors: &mut Accumulator) {
    let fine = field.soft_delete.is_none() || field.indexing_given == Given::Nothing;
    errors.unless(fine, field.indexing_span, || {
        let name = &field.name;
        format!("`soft_delete` always indexes `{name}`; remove this setting")
    });
}

/// Checks that the field has one meaning.
pub(super) fn time_has_its_own_field(field: &FieldModel, errors: &mut Accumulator) {
    let marks = [
        ("created_at", field.created_at),
        ("updated_at", field.updated_at),
        ("soft_delete", field.soft_delete),
    ];
    let mut given = marks
        .iter()
        .filter_map(|(word, span)| Some((word, (*span)?)));
    let (first, second) = (given.next(), given.next());
    if field.time_role().is_some()
        && let (Some((first, _)), Some((second, span))) = (first, second)
    {
        let name = &field.name;
        let text = format!("`{name}` is both `{first}` and `{second}`; use a field for each");
        errors.push(mistake(span, text));
    }
}
