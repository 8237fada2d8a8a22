//! The rules of composites, unique keys, indexes and the generated constants.

use std::collections::HashMap;

use darling::error::Accumulator;
use syn::ext::IdentExt;

use crate::document::model::{DocumentModel, FieldModel, Indexing};
use crate::document::path::{PathModel, Source};
use crate::document::value::{CompositePath, CompositeSetting};
use crate::input::diag::{Mistakes, mistake, suggestion};

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
    let paths = model.paths();
    // A property that is stored under the same name as a field has been reported.
    let is_computed = |path: &PathModel<'_>| matches!(path.source, Source::Computed);
    let is_stored = |name: &str| model.fields.iter().any(|field| field.stored == name);
    let paths = paths.iter();
    let paths = paths.filter(|path| !is_computed(path) || !is_stored(&path.pointer[1..]));
    let paths = paths.map(|path| {
        let what = if is_computed(path) {
            "computed property "
        } else {
            ""
        };
        (path.constant, format!("{what}`{}`", path.name))
    });
    let composites = model.settings.composite.iter();
    let composites =
        composites.map(|composite| (&composite.name, format!("composite `{}`", composite.name)));
    for (constant, source) in paths.chain(composites) {
        if let Some(first) = seen.get(&constant.to_string()) {
            let text =
                format!("{first} and {source} would both be the constant `{constant}`; rename one");
            errors.push(mistake(constant.span(), text));
        } else {
            seen.insert(constant.to_string(), source);
        }
    }
}

pub(super) fn indexing_is_unambiguous(field: &FieldModel, errors: &mut Accumulator) {
    if let (Some(span), Some(_)) = (field.settings.index.word(), field.settings.unindexed.word()) {
        let text = format!("`{}` is both `index` and `unindexed`; keep one", field.name);
        errors.push(mistake(span, text));
    }
}
