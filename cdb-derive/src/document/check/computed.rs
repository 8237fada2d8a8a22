//! The rules of computed properties.

use darling::error::Accumulator;

use super::paths::unknown_placeholder;
use super::stored::RESERVED;
use crate::document::computed::Part;
use crate::document::model::{ComputedModel, DocumentModel};
use crate::input::diag::{Mistakes, mistake};

pub(super) fn is_unambiguous(model: &DocumentModel, at: usize, errors: &mut Accumulator) {
    let computed = &model.computed[at];
    let (name, span) = (&computed.stored, computed.constant.span());
    let stored = model.fields.iter().filter(|field| field.is_written());
    let mut stored = stored.map(|field| &field.stored);
    errors.unless(!stored.any(|field| field == name), span, || {
        format!("`{name}` is a stored field; give the computed property another name")
    });
    let mut before = model.computed[..at].iter();
    errors.unless(!before.any(|other| other.stored == *name), span, || {
        format!("`{name}` is computed twice; keep one")
    });
    errors.unless(!RESERVED.contains(&&**name), span, || {
        format!("`{name}` is set by the service; give the computed property another name")
    });
}

pub(super) fn has_stored_fields(
    model: &DocumentModel,
    computed: &ComputedModel,
    errors: &mut Accumulator,
) {
    let names = computed.expression.iter().filter_map(|part| match part {
        Part::Field(path) => path.first(),
        Part::Text(_) => None,
    });
    for name in names {
        if let Some(field) = model.field(name) {
            errors.unless(field.has_path(), computed.span, || {
                format!("`{name}` is not stored, so nothing can be computed from it")
            });
            continue;
        }
        errors.push(mistake(computed.span, unknown_placeholder(model, name)));
    }
}
