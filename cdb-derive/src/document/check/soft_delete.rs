//! The rules of `soft_delete`.

use darling::error::Accumulator;

use crate::diag::{Mistakes, mistake};
use crate::document::model::{DocumentModel, FieldModel, Given};

pub(super) fn at_most_one(model: &DocumentModel, errors: &mut Accumulator) {
    let marks = model.fields.iter().filter_map(|field| field.soft_delete);
    for second in marks.skip(1) {
        let name = &model.ident;
        let text = format!("second `soft_delete` on `{name}`; a document has one time of deletion");
        errors.push(mistake(second, text));
    }
}

pub(super) fn is_indexed_once(field: &FieldModel, errors: &mut Accumulator) {
    let fine = field.soft_delete.is_none() || field.indexing_given == Given::Nothing;
    errors.unless(fine, field.indexing_span, || {
        let name = &field.name;
        format!("`soft_delete` always indexes `{name}`; remove this setting")
    });
}
