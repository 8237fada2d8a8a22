//! The rules of the type, the id and the partition key.

use darling::error::Accumulator;

use super::paths::unknown_placeholder;
use crate::document::id_pattern::Segment;
use crate::document::model::{DocumentModel, FieldModel};
use crate::document::value::Level;
use crate::input::diag::{Mistakes, mistake};

pub(super) fn type_is_given(model: &DocumentModel, errors: &mut Accumulator) {
    let (name, setting) = (&model.ident, &model.settings.discriminator);
    errors.unless(setting.is_given() || model.settings.unreadable, name.span(), || {
        format!("`{name}` has no type; add `#[document(type = \"…\")]`, the discriminator of its documents")
    });
    if let (Some(value), Some(span)) = (setting.get(), setting.span()) {
        errors.unless(!value.0.is_empty(), span, || {
            format!("the type of `{name}` is empty; write for example `type = \"order\"`")
        });
    }
}

pub(super) fn id_is_given(model: &DocumentModel, errors: &mut Accumulator) {
    let name = &model.ident;
    errors.unless(model.settings.id.is_given() || model.settings.unreadable, name.span(), || {
        format!(
            "`{name}` has no id pattern; add `#[document(id = \"…\")]` naming the fields that make it unique within its partition"
        )
    });
}

pub(super) fn partition_key_is_given(model: &DocumentModel, errors: &mut Accumulator) {
    let name = &model.ident;
    let fine = !model.partition_key().is_empty() || model.has_unreadable_fields();
    errors.unless(fine, name.span(), || {
        format!("`{name}` has no partition key; mark its field with `#[document(partition_key)]`")
    });
}

pub(super) fn partition_key_levels_are_complete(model: &DocumentModel, errors: &mut Accumulator) {
    let name = &model.ident;
    let marks: Vec<_> = model
        .fields
        .iter()
        .filter_map(|field| field.partition_key)
        .collect();
    if marks.iter().any(|(level, _)| *level == Level::Unreadable) {
        return;
    }
    for (at, (level, span)) in marks.iter().enumerate() {
        let before = &marks[..at];
        match level {
            Level::Numbered(level) if *level > marks.len() => errors.push(mistake(
                *span,
                format!(
                    "`{name}` has {} partition key {}; number them from 1 without a gap",
                    marks.len(),
                    if marks.len() == 1 { "level" } else { "levels" },
                ),
            )),
            Level::Numbered(level) => {
                let taken = before
                    .iter()
                    .any(|(other, _)| *other == Level::Numbered(*level));
                errors.unless(!taken, *span, || {
                    format!("level {level} of the partition key of `{name}` is given twice")
                });
            }
            _ => {}
        }
        let fits = before.is_empty()
            || (*level != Level::Only && before.iter().all(|(other, _)| *other != Level::Only));
        errors.unless(fits, *span, || {
            format!(
                "second partition key on `{name}`; for a hierarchical key give each its level, `partition_key(1)`, `partition_key(2)`"
            )
        });
    }
}

pub(super) fn placeholders_are_fields(model: &DocumentModel, errors: &mut Accumulator) {
    for segment in &model.pattern {
        let Segment::Field(placeholder) = segment else {
            continue;
        };
        let (field, known) = (model.field(placeholder), model.placeholder(placeholder));
        errors.unless(field.or(known).is_some(), model.pattern_span(), || {
            unknown_placeholder(model, placeholder)
        });
        errors.unless(field.is_none() || known.is_some(), model.pattern_span(), || {
            format!("`{{{placeholder}}}` is flattened, so it cannot be part of the id; an id is unique within its partition, so it does not need the partition key")
        });
    }
}

pub(super) fn id_parts_are_placeholders(model: &DocumentModel, errors: &mut Accumulator) {
    for part in &model.id_parts {
        let (name, span) = (&part.name, part.ident.span());
        errors.unless(model.field(name).is_none(), span, || {
            format!("`{name}` is a field, which the id pattern can use without `id_part`")
        });
        let is_used = model.key_fields().iter().any(|field| field.name == *name);
        errors.unless(is_used || model.pattern.is_empty(), span, || {
            format!("`{name}` is not in the id pattern; add `{{{name}}}` to it")
        });
        errors.unless(!part.is_option, span, || {
            format!("`{name}` is part of the id and must always have a value; remove `Option`")
        });
    }
}

pub(super) fn keys_are_not_optional(
    model: &DocumentModel,
    field: &FieldModel,
    errors: &mut Accumulator,
) {
    let role = model
        .fixed_role(field)
        .filter(|_| field.is_option && field.roles.is_empty());
    if let Some(role) = role {
        let name = &field.name;
        let text = format!("`{name}` is {role} and must always have a value; remove `Option`");
        errors.push(mistake(field.ident.span(), text));
    }
}
