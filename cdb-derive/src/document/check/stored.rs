//! What stands in the stored JSON: under which names, and whether always.

use std::collections::HashMap;

use darling::error::Accumulator;

use crate::diag::{Mistakes, mistake};
use crate::document::model::{DocumentModel, FieldModel, Indexing};

/// Properties that every document has from the service or from the model.
const RESERVED: [&str; 7] = [
    "id",
    "_etag",
    "_ts",
    "_rid",
    "_self",
    "_attachments",
    "_lsn",
];

pub(super) fn names_differ(model: &DocumentModel, errors: &mut Accumulator) {
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

pub(super) fn name_is_not_reserved(field: &FieldModel, errors: &mut Accumulator) {
    let stored = &field.stored;
    let fine = !RESERVED.contains(&&**stored) || field.skip.is_some();
    errors.unless(fine, field.ident.span(), || {
        if stored == "id" {
            "`id` is made from the id pattern; give the field another name and put it into the pattern".to_owned()
        } else {
            format!("`{stored}` is set by the service; read it from `Stored<…>`")
        }
    });
}

/// A path is made of stored names, so a name must not look like a path.
pub(super) fn name_is_one_property(field: &FieldModel, errors: &mut Accumulator) {
    let stored = &field.stored;
    let fine = !stored.is_empty() && !stored.contains(['/', '"', '\\', '~']) && stored != "[]";
    errors.unless(fine || field.skip.is_some(), field.ident.span(), || {
        format!(
            "`{}` is stored as `{stored}`, which no path can name; rename it without `/`, `\\`, `~` and quotation marks",
            field.name
        )
    });
}

pub(super) fn what_counts_is_stored(
    model: &DocumentModel,
    field: &FieldModel,
    errors: &mut Accumulator,
) {
    let role = if field.partition_key.is_some() {
        "is the partition key"
    } else if model.is_fixed(field) {
        "is part of the id"
    } else if field.ttl.is_some() {
        "is the time to live"
    } else if field.lease.is_some() {
        "is the lease"
    } else if field.indexing == Indexing::Indexed || !field.nested.is_empty() {
        "is indexed"
    } else {
        return;
    };
    if let Some((word, span)) = &field.skip {
        errors.push(mistake(
            *span,
            format!(
                "`{}` {role}, so it must be stored; remove `{word}`",
                field.name
            ),
        ));
    }
    if let Some(span) = field.skip_serializing_if
        && model.is_fixed(field)
    {
        errors.push(mistake(
            span,
            format!(
                "`{}` {role}, so it must always be stored; remove `skip_serializing_if`",
                field.name
            ),
        ));
    }
}

/// The service itself reads the property `ttl`: whatever stands there decides when the document is gone.
pub(super) fn ttl_is_stored_as_such(field: &FieldModel, errors: &mut Accumulator) {
    let Some(span) = field.ttl else {
        let harmless = field.stored != "ttl" || field.skip.is_some();
        errors.unless(harmless, field.ident.span(), || {
            "`ttl` is the property from which the service reads the time to live; mark it with `#[document(ttl)]` or rename it"
                .to_owned()
        });
        return;
    };
    errors.unless(field.stored == "ttl", span, || {
        format!(
            "the service reads the time to live from `ttl`, `{}` is stored as `{}`; rename it with `#[serde(rename = \"ttl\")]`",
            field.name, field.stored
        )
    });
    errors.unless(!field.is_option || field.skip_serializing_if.is_some(), span, || {
        format!(
            "the service refuses `\"ttl\": null`; add `#[serde(skip_serializing_if = \"Option::is_none\")]` to `{}`",
            field.name
        )
    });
}
