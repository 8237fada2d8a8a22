//! The rules of an enum, one function per rule. The first function lists them.
//!
//! `cdb_model::conflict` checks the rules between document types.

use std::collections::HashMap;

use darling::error::Accumulator;
use quote::ToTokens;

use super::attr::RawContainer;
use crate::diag::{Mistakes, mistake};

const MAX_LEVELS: usize = 3;

/// Checks all rules.
pub(super) fn all(raw: &RawContainer, errors: &mut Accumulator) {
    at_most_one_base(raw, errors);
    each_type_has_one_variant(raw, errors);
    has_a_document_type(raw, errors);
    let mut variants = raw.variants.iter();
    if variants.any(|variant| variant.settings.extends.is_given()) {
        inherited_settings_are_not_repeated(raw, errors);
    } else {
        partition_key_is_known(raw, errors);
    }
    partition_key_has_paths(raw, errors);
    discriminator_is_unreserved(raw, errors);
}

fn at_most_one_base(raw: &RawContainer, errors: &mut Accumulator) {
    let name = &raw.ident;
    for word in raw
        .variants
        .iter()
        .filter_map(|variant| variant.settings.extends.word())
        .skip(1)
    {
        errors.push(mistake(
            word,
            format!("`{name}` extends two containers; let one of them extend the other"),
        ));
    }
}

fn each_type_has_one_variant(raw: &RawContainer, errors: &mut Accumulator) {
    let mut seen = HashMap::new();
    for variant in &raw.variants {
        let ty = variant.ty.to_token_stream().to_string();
        if let Some(first) = seen.get(&ty) {
            errors.push(mistake(
                variant.ident.span(),
                format!(
                    "`{}` and `{first}` contain the same type; a document type has one variant",
                    variant.ident
                ),
            ));
        } else {
            seen.insert(ty, &variant.ident);
        }
    }
}

fn has_a_document_type(raw: &RawContainer, errors: &mut Accumulator) {
    let name = &raw.ident;
    errors.unless(
        !raw.variants.is_empty() || raw.has_unreadable_variants,
        name.span(),
        || format!("`{name}` has no document types; add a variant for each"),
    );
}

fn inherited_settings_are_not_repeated(raw: &RawContainer, errors: &mut Accumulator) {
    let name = &raw.ident;
    let repeated = [
        ("partition_key", raw.settings.partition_key.word()),
        ("discriminator", raw.settings.discriminator.word()),
    ];
    for (word, span) in repeated {
        if let Some(span) = span {
            errors.push(mistake(
                span,
                format!("`{word}` comes from the container that `{name}` extends; remove it here"),
            ));
        }
    }
}

fn partition_key_is_known(raw: &RawContainer, errors: &mut Accumulator) {
    let name = &raw.ident;
    // An unreadable variant may be the container that this one extends.
    let mut variants = raw.variants.iter();
    let fine = raw.settings.partition_key.is_given()
        || raw.settings.unreadable
        || raw.has_unreadable_variants
        || raw.variants.is_empty()
        || variants.any(|variant| variant.settings.unreadable || !variant.names(name));
    errors.unless(fine, name.span(), || {
        format!("the types of `{name}` take their partition key from `{name}`; add `#[container(partition_key = \"/…\")]` with its path")
    });
}

fn partition_key_has_paths(raw: &RawContainer, errors: &mut Accumulator) {
    let setting = &raw.settings.partition_key;
    let (Some(paths), Some(span)) = (setting.get(), setting.span()) else {
        return;
    };
    for path in &paths.0 {
        errors.unless(path.starts_with('/') && path.len() > 1, span, || {
            format!("`{path}` is not a path; a partition key path starts with `/`, for example `/customerId`")
        });
    }
    errors.unless(paths.0.len() <= MAX_LEVELS, span, || {
        format!(
            "a partition key has at most {MAX_LEVELS} levels; this one has {}",
            paths.0.len()
        )
    });
}

fn discriminator_is_unreserved(raw: &RawContainer, errors: &mut Accumulator) {
    let setting = &raw.settings.discriminator;
    let (Some(property), Some(span)) = (setting.get(), setting.span()) else {
        return;
    };
    let property = &property.0;
    let fine = !property.is_empty()
        && !matches!(&**property, "id" | "ttl" | "schemaVersion")
        && !property.starts_with('_')
        && !property.contains(['/', '"', '\\', '~']);
    errors.unless(fine, span, || {
        format!(
            "`{property}` cannot be the discriminator; use a property that neither the service nor the model reserves, without `/`, `\\`, `~` and quotation marks, for example `type`"
        )
    });
}
