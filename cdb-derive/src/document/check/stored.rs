//! The rules of the stored JSON: the names of properties, and which of them are always stored.

use std::collections::HashMap;

use darling::error::Accumulator;
use syn::ext::IdentExt;

use crate::document::model::{DocumentModel, FieldModel, Indexing};
use crate::document::role::Role;
use crate::input::diag::{Mistakes, mistake};

/// The mark of a write, which proves after a lost answer that the write took effect.
const MARK: &str = "writeMark";

/// Properties of every document that the service or the model sets.
pub(super) const RESERVED: [&str; 8] = [
    "id",
    MARK,
    "_etag",
    "_ts",
    "_rid",
    "_self",
    "_attachments",
    "_lsn",
];

pub(super) fn names_differ(model: &DocumentModel, errors: &mut Accumulator) {
    let mut seen: HashMap<&str, &FieldModel> = HashMap::new();
    for field in model.fields.iter().filter(|field| field.is_written()) {
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

pub(super) fn name_is_not_reserved(field: &FieldModel, errors: &mut Accumulator) {
    let stored = &field.stored;
    let fine = !RESERVED.contains(&&**stored) || !field.is_written();
    errors.unless(fine, field.ident.span(), || {
        if stored == "id" {
            "the id pattern generates `id`; rename the field and use it in the pattern".to_owned()
        } else if stored == MARK {
            "`writeMark` is the property of the marks that writes are recognised by; rename the field".to_owned()
        } else {
            format!("`{stored}` is set by the service; read it from `Stored<…>`")
        }
    });
}

/// Checks that a stored name is a single property, because paths are made of stored names.
pub(super) fn name_is_one_property(field: &FieldModel, errors: &mut Accumulator) {
    let stored = &field.stored;
    let fine = !stored.contains(['/', '"', '\\', '~']) && !matches!(&**stored, "" | "[]" | "*");
    errors.unless(fine || !field.has_path(), field.ident.span(), || {
        format!(
            "`{}` is stored as `{stored}`, which a path cannot contain; rename it without `/`, `\\`, `~` and quotation marks",
            field.name
        )
    });
}

/// Checks the names in the paths of keys. "The partition key path accepts alphanumeric and underscore(_)
/// characters" (partitioning-overview). Unique keys are held to the same, because no page allows more.
pub(super) fn key_path_is_plain(
    model: &DocumentModel,
    field: &FieldModel,
    errors: &mut Accumulator,
) {
    let is_unique = || {
        let mut uniques = model
            .settings
            .unique
            .iter()
            .flat_map(|unique| &unique.fields);
        uniques.any(|ident| ident.unraw() == field.name)
    };
    let stored = &field.stored;
    let fine = stored
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '_');
    errors.unless(
        fine || !field.has_path() || !(field.partition_key.is_some() || is_unique()),
        field.ident.span(),
        || {
            format!(
                "`{}` is stored as `{stored}`, but the path of a key has letters, digits and `_` only; rename it",
                field.name
            )
        },
    );
}

pub(super) fn required_fields_are_stored(
    model: &DocumentModel,
    field: &FieldModel,
    errors: &mut Accumulator,
) {
    let (name, fixed, rules) = (&field.name, model.fixed_role(field), field.rules());
    let is_indexed =
        field.indexing == Indexing::Indexed || field.nested.iter().any(|path| path.indexed);
    let role = fixed.or(rules.map(|rules| rules.meaning));
    if let Some((word, span)) = &field.serde.skip
        && let Some(role) = role.or(is_indexed.then_some("indexed"))
    {
        let text = format!("`{name}` is {role}, so it must be stored; remove `{word}`");
        errors.push(mistake(*span, text));
    }
    let always = rules.filter(|rules| rules.is_always_stored);
    if let Some(span) = field.serde.skip_serializing_if
        && let Some(role) = fixed.or(always.map(|rules| rules.meaning))
    {
        let text = format!(
            "`{name}` is {role}, so it must always be stored; remove `skip_serializing_if`"
        );
        errors.push(mistake(span, text));
    }
}

/// Checks that only the time to live is stored as `ttl`, because the service deletes documents by
/// this property.
pub(super) fn ttl_has_its_stored_name(field: &FieldModel, errors: &mut Accumulator) {
    let Some(span) = field.in_role(Role::Ttl) else {
        let fine = field.stored != "ttl" || !field.is_written();
        errors.unless(fine, field.ident.span(), || {
            "the service reads the time to live from `ttl`; mark the field with `#[document(ttl)]` or rename it"
                .to_owned()
        });
        return;
    };
    errors.unless(field.stored == "ttl", span, || {
        format!(
            "the service reads the time to live from `ttl`, but `{}` is stored as `{}`; rename it with `#[serde(rename = \"ttl\")]`",
            field.name, field.stored
        )
    });
    errors.unless(!field.is_option || field.serde.skip_serializing_if.is_some(), span, || {
        format!(
            "the service refuses `\"ttl\": null`; add `#[serde(skip_serializing_if = \"Option::is_none\")]` to `{}`",
            field.name
        )
    });
}

/// Refuses a level of a shared key that documents store for another purpose.
pub(super) fn name_has_no_meaning(field: &FieldModel, errors: &mut Accumulator) {
    if ["ttl", "schemaVersion"].contains(&&*field.stored) {
        let text = format!(
            "`{}` is the time to live or the version of a document; rename `{}`",
            field.stored, field.name
        );
        errors.push(mistake(field.ident.span(), text));
    }
}
