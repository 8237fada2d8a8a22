//! The rules of roles: each has a field of its own, and the settings of the field do not
//! contradict it.

use darling::error::Accumulator;

use crate::document::model::{DocumentModel, FieldModel};
use crate::document::role::Role;
use crate::input::diag::mistake;

pub(super) fn at_most_one_field_each(model: &DocumentModel, errors: &mut Accumulator) {
    for role in Role::MARKS {
        for (_, second) in model.in_role(role).skip(1) {
            let (word, name) = (role.rules().word, &model.ident);
            let text = format!("second `{word}` on `{name}`; a document has at most one");
            errors.push(mistake(second, text));
        }
    }
}

pub(super) fn has_its_own_field(
    model: &DocumentModel,
    field: &FieldModel,
    errors: &mut Accumulator,
) {
    let [(role, span), others @ ..] = &*field.roles else {
        return;
    };
    let (name, rules) = (&field.name, role.rules());
    let word = rules.word;
    for (other, span) in others {
        let other = other.rules().word;
        let text = format!("`{name}` is both `{word}` and `{other}`; use a field for each");
        errors.push(mistake(*span, text));
    }
    if let Some(fixed) = model.fixed_role(field) {
        let text = format!("`{name}` is {fixed}; use another field for `{word}`");
        errors.push(mistake(*span, text));
    }
    if let Some(span) = field.index_word().filter(|_| rules.has_own_index) {
        let text = format!("`{word}` determines the index of `{name}`; remove this setting");
        errors.push(mistake(span, text));
    }
}
