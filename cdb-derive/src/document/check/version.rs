//! The rules of versions: each has an upcast to the next one, and the fields of newer versions are
//! kept.

use darling::error::Accumulator;

use crate::document::model::{DocumentModel, FieldModel};
use crate::document::role::Role;
use crate::document::value::Level;
use crate::input::diag::{Mistakes, mistake};

/// The stored name of the version.
const VERSION: &str = "schemaVersion";

pub(super) fn has_all_upcasts(model: &DocumentModel, errors: &mut Accumulator) {
    let (setting, upcast) = (&model.settings.version, &model.settings.upcast);
    let (Some(version), Some(span)) = (setting.get(), setting.word()) else {
        if let Some(span) = upcast.word() {
            errors.push(mistake(
                span,
                "`upcast` needs the version after it; add `version = 2`",
            ));
        }
        return;
    };
    let (version, given) = (version.0, upcast.get().map_or(0, |upcast| upcast.0.len()));
    let needed = version as usize - 1;
    errors.unless(given == needed, upcast.word().unwrap_or(span), || {
        format!("version {version} needs {needed} upcasts, from version 1 to 2 and so on, but {given} are given")
    });
}

/// Checks that a program of this version loses nothing of a newer one.
pub(super) fn keeps_newer_fields(model: &DocumentModel, errors: &mut Accumulator) {
    let unknown = model.in_role(Role::Unknown).next();
    let version = &model.settings.version;
    let Some(span) = version.get().and(version.word()) else {
        // Without a version, a write would store the discriminator twice: it is among the unknown
        // fields of a document that was read.
        let is_reported = version.is_given() || model.settings.upcast.is_given();
        if let Some((_, span)) = unknown.filter(|_| !is_reported) {
            errors.push(mistake(
                span,
                "unknown fields are those of newer versions; add `version = 1` to the type",
            ));
        }
        return;
    };
    errors.unless(unknown.is_some() || model.has_unreadable_fields(), span, || {
        "a type with versions keeps the fields of newer ones; add `#[serde(flatten)] #[document(unknown)] newer: UnknownFields`".to_owned()
    });
    for field in model.fields.iter().filter(|field| field.stored == VERSION) {
        let text = format!(
            "the version is stored as `{VERSION}`; rename `{}`",
            field.name
        );
        errors.push(mistake(field.ident.span(), text));
    }
}

pub(super) fn flattens_unknown_fields_or_the_key(field: &FieldModel, errors: &mut Accumulator) {
    if let (Some(_), Some((level, span))) = (field.serde.flatten, field.partition_key) {
        let text = "a flattened partition key has all levels; write `partition_key` only";
        errors.unless(level == Level::Only, span, || text.to_owned());
        return;
    }
    match (field.serde.flatten, field.in_role(Role::Unknown)) {
        (Some(span), None) => errors.push(mistake(
            span,
            "`flatten` hides which paths are stored; spell the fields out, put them under one field, or mark a partition key with `#[document(partition_key)]`",
        )),
        (None, Some(span)) => {
            let text = format!("unknown fields are stored beside the others; add `#[serde(flatten)]` to `{}`", field.name);
            errors.push(mistake(span, text));
        }
        (Some(_), Some(_)) | (None, None) => {}
    }
}
