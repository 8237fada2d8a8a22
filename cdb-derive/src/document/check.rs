//! What a struct must not do, one function per refusal. The first lists them.

use std::collections::HashMap;

use darling::error::Accumulator;
use syn::ext::IdentExt;

use super::model::{DocumentModel, FieldModel, Indexing};
use crate::diag::{Mistakes, mistake, nearest};
use crate::id_pattern::Segment;

const RESERVED: [&str; 7] = [
    "id",
    "_etag",
    "_ts",
    "_rid",
    "_self",
    "_attachments",
    "_lsn",
];

/// Every refusal.
pub(super) fn all(model: &DocumentModel, errors: &mut Accumulator) {
    partition_key_is_there(model, errors);
    partition_key_levels_are_complete(model, errors);
    placeholders_are_fields(model, errors);
    composites_are_indexed(model, errors);
    uniques_are_fields(model, errors);
    stored_names_differ(model, errors);
    for field in &model.fields {
        name_is_not_reserved(field, errors);
        indexing_is_one_thing(field, errors);
        what_counts_is_stored(model, field, errors);
        keys_are_definite(model, field, errors);
        ttl_is_stored_as_such(field, errors);
    }
}

fn partition_key_is_there(model: &DocumentModel, errors: &mut Accumulator) {
    let name = &model.ident;
    errors.unless(!model.partition_key().is_empty(), name.span(), || {
        format!(
            "`{name}` has no partition key; mark the field that holds it with `#[document(partition_key)]`"
        )
    });
}

fn partition_key_levels_are_complete(model: &DocumentModel, errors: &mut Accumulator) {
    let name = &model.ident;
    let marks: Vec<_> = model
        .fields
        .iter()
        .filter_map(|field| field.partition_key)
        .collect();
    let levels: Vec<_> = marks.iter().map(|(level, _)| *level).collect();
    for (at, (level, span)) in marks.iter().enumerate().skip(1) {
        let fine =
            level.is_some() && !levels[..at].contains(level) && !levels[..at].contains(&None);
        errors.unless(fine, *span, || {
            format!(
                "second partition key on `{name}`; for a hierarchical key give each its level, `partition_key(1)`, `partition_key(2)`"
            )
        });
    }
    for (level, span) in &marks {
        errors.unless(
            level.is_none_or(|level| level <= marks.len()),
            *span,
            || {
                format!(
                    "`{name}` has {} partition key levels; number them from 1 without a gap",
                    marks.len()
                )
            },
        );
    }
}

fn placeholders_are_fields(model: &DocumentModel, errors: &mut Accumulator) {
    for segment in &model.pattern {
        if let Segment::Field(placeholder) = segment {
            errors.unless(
                model.field(placeholder).is_some(),
                model.pattern_span,
                || {
                    format!(
                        "`{{{placeholder}}}` is not a field of `{}`{}",
                        model.ident,
                        nearest(placeholder, &model.field_names())
                    )
                },
            );
        }
    }
}

fn composites_are_indexed(model: &DocumentModel, errors: &mut Accumulator) {
    for composite in &model.composites {
        let name = &composite.name;
        errors.unless(
            (2..=8).contains(&composite.paths.len()),
            name.span(),
            || {
                format!(
                    "composite `{name}` has {} paths; the service takes 2 to 8",
                    composite.paths.len()
                )
            },
        );
        for path in &composite.paths {
            let field = path.field.unraw().to_string();
            let span = path.field.span();
            match model.field(&field) {
                Some(known) => errors.unless(known.indexing == Indexing::Indexed, span, || {
                    format!("`{field}` is in composite `{name}` but not indexed; add `#[document(index)]` to it")
                }),
                // The discriminator, which the container names.
                None if field == "type" => {}
                None => errors.push(mistake(
                    span,
                    format!(
                        "`{field}` is not a field of `{}`{}; the discriminator is `r#type`",
                        model.ident,
                        nearest(&field, &model.field_names())
                    ),
                )),
            }
        }
    }
}

fn uniques_are_fields(model: &DocumentModel, errors: &mut Accumulator) {
    for unique in &model.uniques {
        for ident in &unique.fields {
            let field = ident.unraw().to_string();
            errors.unless(model.field(&field).is_some(), ident.span(), || {
                format!(
                    "`{field}` is not a field of `{}`{}",
                    model.ident,
                    nearest(&field, &model.field_names())
                )
            });
        }
    }
}

fn stored_names_differ(model: &DocumentModel, errors: &mut Accumulator) {
    let mut seen: HashMap<&str, &FieldModel> = HashMap::new();
    for field in model.fields.iter().filter(|field| field.skip.is_none()) {
        if let Some(first) = seen.insert(&field.stored, field) {
            errors.push(mistake(
                field.ident.span(),
                format!(
                    "`{}` and `{}` are both stored as `{}`",
                    first.name, field.name, field.stored
                ),
            ));
        }
    }
}

fn name_is_not_reserved(field: &FieldModel, errors: &mut Accumulator) {
    let stored = &field.stored;
    let fine = !RESERVED.contains(&&**stored) || field.skip.is_some();
    errors.unless(fine, field.ident.span(), || {
        if stored == "id" {
            "`id` is made from the id pattern; name the field differently and put it into the pattern".to_owned()
        } else {
            format!("`{stored}` is set by the service; read it from `Stored<…>`")
        }
    });
}

fn indexing_is_one_thing(field: &FieldModel, errors: &mut Accumulator) {
    errors.unless(!field.both_indexed_and_not, field.indexing_span, || {
        format!("`{}` is both `index` and `unindexed`; keep one", field.name)
    });
}

fn what_counts_is_stored(model: &DocumentModel, field: &FieldModel, errors: &mut Accumulator) {
    let Some((word, span)) = &field.skip else {
        return;
    };
    let role = if field.partition_key.is_some() {
        "is the partition key"
    } else if model.is_fixed(field) {
        "is part of the id"
    } else if field.indexing == Indexing::Indexed || !field.nested.is_empty() {
        "is indexed"
    } else {
        return;
    };
    errors.push(mistake(
        *span,
        format!(
            "`{}` {role}, so it must be stored; remove `{word}`",
            field.name
        ),
    ));
}

fn keys_are_definite(model: &DocumentModel, field: &FieldModel, errors: &mut Accumulator) {
    if !field.is_option || !model.is_fixed(field) {
        return;
    }
    let role = if field.partition_key.is_some() {
        "the partition key"
    } else {
        "part of the id"
    };
    errors.push(mistake(
        field.ident.span(),
        format!(
            "`{}` is {role} and must always have a value; take it out of `Option`",
            field.name
        ),
    ));
}

fn ttl_is_stored_as_such(field: &FieldModel, errors: &mut Accumulator) {
    let Some(span) = field.ttl else { return };
    errors.unless(field.stored == "ttl", span, || {
        format!(
            "the service reads the time to live from `ttl`, `{}` is stored as `{}`; rename it with `#[serde(rename = \"ttl\")]`",
            field.name, field.stored
        )
    });
    errors.unless(!field.is_option || field.skip_serializing_if, span, || {
        format!(
            "the service refuses `\"ttl\": null`; add `#[serde(skip_serializing_if = \"Option::is_none\")]` to `{}`",
            field.name
        )
    });
}
