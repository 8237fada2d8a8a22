//! The rules of vectors and full-text fields.

use darling::error::Accumulator;

use crate::diag::{Mistakes, mistake};
use crate::document::model::{DocumentModel, FieldModel, Given};
use crate::document::search::VectorIndex;

/// The limits of `cdb_model::limits`, which a derive cannot use.
const MAX_DIMENSIONS: u32 = 4096;
const MAX_FLAT_DIMENSIONS: u32 = 505;

pub(super) fn vector_is_within_limits(field: &FieldModel, errors: &mut Accumulator) {
    let Some(vector) = &field.vector else {
        return;
    };
    let (dimensions, span) = (vector.dimensions, vector.span);
    errors.unless((1..=MAX_DIMENSIONS).contains(&dimensions), span, || {
        format!(
            "a vector has 1 to {MAX_DIMENSIONS} dimensions; `{}` has {dimensions}",
            field.name
        )
    });
    let fits = vector.index != VectorIndex::Flat || dimensions <= MAX_FLAT_DIMENSIONS;
    errors.unless(fits, span, || {
        format!(
            "a flat index has at most {MAX_FLAT_DIMENSIONS} dimensions; use `index = quantized_flat` or `index = disk_ann`"
        )
    });
    errors.unless(
        field.indexing_given == Given::Nothing,
        field.indexing_span,
        || {
            format!(
                "`vector` has an index of its own; remove this setting of `{}`",
                field.name
            )
        },
    );
}

pub(super) fn is_searched_in_one_way(
    model: &DocumentModel,
    field: &FieldModel,
    errors: &mut Accumulator,
) {
    let name = &field.name;
    if let (Some(vector), Some((_, span))) = (&field.vector, &field.full_text) {
        let text = format!("`{name}` is both a vector and a text; keep one");
        errors.push(mistake(vector.span.join(*span).unwrap_or(*span), text));
    }
    let span = field.vector.as_ref().map(|vector| vector.span);
    let span = span.or(field.full_text.as_ref().map(|(_, span)| *span));
    let (Some(span), Some(role)) = (span, model.fixed_role(field)) else {
        return;
    };
    let text = format!("`{name}` is {role}; search another field");
    errors.push(mistake(span, text));
}
