//! The rules of composites, unique keys, indexes and the generated constants.

use std::collections::HashMap;

use darling::error::Accumulator;
use syn::ext::IdentExt;

use crate::diag::{Mistakes, mistake, suggestion};
use crate::document::model::{DocumentModel, FieldModel, Indexing};
use crate::document::value::{CompositePath, CompositeSetting};

/// The limits of `cdb_model::limits`, which a derive cannot use.
const MAX_COMPOSITE_PATHS: usize = 8;
const MAX_UNIQUE_KEY_PATHS: usize = 16;

pub(super) fn composites_are_sortable(model: &DocumentModel, errors: &mut Accumulator) {
    for composite in &model.settings.composite {
        let name = &composite.name;
        let length = composite.paths.len();
        errors.unless(
            (2..=MAX_COMPOSITE_PATHS).contains(&length),
            name.span(),
            || {
                format!(
                    "composite `{name}` needs 2 to {MAX_COMPOSITE_PATHS} paths; it has {length}"
                )
            },
        );
        for (at, path) in composite.paths.iter().enumerate() {
            composite_path_is_sortable(model, composite, path, errors);
            let twice = composite.paths[..at]
                .iter()
                .any(|before| before.field == path.field);
            errors.unless(!twice, path.field.span(), || {
                format!(
                    "`{}` is repeated in composite `{name}`; name it once",
                    path.field.unraw()
                )
            });
        }
    }
}

fn composite_path_is_sortable(
    model: &DocumentModel,
    composite: &CompositeSetting,
    path: &CompositePath,
    errors: &mut Accumulator,
) {
    let name = &composite.name;
    let field = path.field.unraw().to_string();
    let span = path.field.span();
    if let Some(computed) = model.computed(&field) {
        return errors.unless(computed.indexed, span, || {
            format!("`{field}` is in composite `{name}` but not indexed; add `, index` to the computed property")
        });
    }
    match model.field(&field) {
        Some(known) if known.indexing != Indexing::Indexed => errors.push(mistake(
            span,
            format!("`{field}` is in composite `{name}` but not indexed; add `#[document(index)]` to it"),
        )),
        Some(known) => errors.unless(!known.is_array, span, || {
            format!("`{field}` is in composite `{name}` but is an array; a composite sorts by single values")
        }),
        // The discriminator; the container determines its name.
        None if field == "type" => {}
        None => errors.push(mistake(span, unknown_field(model, &field))),
    }
}

pub(super) fn uniques_are_fields(model: &DocumentModel, errors: &mut Accumulator) {
    for unique in &model.settings.unique {
        let length = unique.fields.len();
        errors.unless(
            (1..=MAX_UNIQUE_KEY_PATHS).contains(&length),
            unique.span,
            || {
                format!(
                    "a unique key needs 1 to {MAX_UNIQUE_KEY_PATHS} fields; this one has {length}"
                )
            },
        );
        for ident in &unique.fields {
            let field = ident.unraw().to_string();
            match model.field(&field) {
                Some(known) => errors.unless(!known.is_array, ident.span(), || {
                    format!("`{field}` is an array; a unique key compares single values")
                }),
                // The discriminator, as in a composite.
                None if field == "type" => {}
                None => errors.push(mistake(ident.span(), unknown_field(model, &field))),
            }
        }
    }
}

fn unknown_field(model: &DocumentModel, field: &str) -> String {
    let known = model.fields.iter().map(|field| field.name.clone());
    unknown(model, field, known)
}

/// Returns the error text of a placeholder `{field}` without a field.
pub(super) fn unknown_placeholder(model: &DocumentModel, field: &str) -> String {
    let fields = model.fields.iter();
    let known = fields.map(|field| format!("{{{}}}", field.name));
    unknown(model, &format!("{{{field}}}"), known)
}

fn unknown(model: &DocumentModel, written: &str, known: impl Iterator<Item = String>) -> String {
    format!(
        "`{written}` is not a field of `{}`{}",
        model.ident,
        suggestion(written, known)
    )
}

/// Checks that the constants of paths and composites have different names.
pub(super) fn constants_differ(model: &DocumentModel, errors: &mut Accumulator) {
    let mut seen: HashMap<String, String> = HashMap::new();
    let stored = model.fields.iter().filter(|field| field.has_path());
    let of_fields = stored.flat_map(|field| {
        let own = (&field.constant, &field.name, field.ident.span());
        let nested = field.nested.iter();
        let nested = nested.map(|nested| (&nested.constant, &nested.name, nested.span));
        std::iter::once(own).chain(nested)
    });
    let of_fields =
        of_fields.map(|(constant, name, span)| (constant.to_string(), format!("`{name}`"), span));
    let of_composites = model.settings.composite.iter().map(|composite| {
        let name = &composite.name;
        (name.to_string(), format!("composite `{name}`"), name.span())
    });
    // A property that is stored under the same name has been reported.
    let of_computed = model.computed.iter().filter(|computed| {
        let mut fields = model.fields.iter();
        !fields.any(|field| field.stored == computed.stored)
    });
    let of_computed = of_computed.map(|computed| {
        let name = format!("computed property `{}`", computed.name);
        (
            computed.constant.to_string(),
            name,
            computed.constant.span(),
        )
    });
    for (constant, source, span) in of_fields.chain(of_composites).chain(of_computed) {
        if let Some(first) = seen.get(&constant) {
            errors.push(mistake(
                span,
                format!("{first} and {source} would both be the constant `{constant}`; rename one"),
            ));
        } else {
            seen.insert(constant, source);
        }
    }
}

pub(super) fn indexing_is_unambiguous(field: &FieldModel, errors: &mut Accumulator) {
    if let (Some(span), Some(_)) = (field.settings.index.word(), field.settings.unindexed.word()) {
        let text = format!("`{}` is both `index` and `unindexed`; keep one", field.name);
        errors.push(mistake(span, text));
    }
}
