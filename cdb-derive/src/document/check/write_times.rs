//! The rules of `created_at` and `updated_at`.

use darling::error::Accumulator;
use proc_macro2::Span;

use crate::diag::mistake;
use crate::document::model::{DocumentModel, FieldModel};

pub(super) fn at_most_one_each(model: &DocumentModel, errors: &mut Accumulator) {
    at_most_one(model, "created_at", |field| field.created_at, errors);
    at_most_one(model, "updated_at", |field| field.updated_at, errors);
}

fn at_most_one(
    model: &DocumentModel,
    word: &str,
    mark: fn(&FieldModel) -> Option<Span>,
    errors: &mut Accumulator,
) {
    for second in model.fields.iter().filter_map(mark).skip(1) {
        let name = &model.ident;
        let text = format!("second `{word}` on `{name}`; keep one");
        errors.push(mistake(second, text));
    }
}

/// Checks that the field has one meaning.
pub(super) fn has_its_own_field(field: &FieldModel, errors: &mut Accumulator) {
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
