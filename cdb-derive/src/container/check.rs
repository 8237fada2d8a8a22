//! The rules of an enum, one function per rule. The first function lists them.
//!
//! `cdb_model::conflict` checks the rules between document types.

use std::collections::HashMap;

use darling::error::Accumulator;
use quote::ToTokens;

use super::model::ContainerModel;
use crate::input::diag::{Mistakes, mistake};

const MAX_LEVELS: usize = 3;

/// Checks all rules.
pub(super) fn all(model: &ContainerModel, errors: &mut Accumulator) {
    at_most_one_base(model, errors);
    each_type_has_one_variant(model, errors);
    has_a_document_type(model, errors);
    if model.base().is_some() {
        inherited_settings_are_not_repeated(model, errors);
    } else {
        partition_key_is_known(model, errors);
    }
    partition_key_has_paths(model, errors);
    discriminator_is_unreserved(model, errors);
}

fn at_most_one_base(model: &ContainerModel, errors: &mut Accumulator) {
    let name = &model.ident;
    for word in model
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

fn each_type_has_one_variant(model: &ContainerModel, errors: &mut Accumulator) {
    let mut seen = HashMap::new();
    for variant in &model.variants {
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

fn has_a_document_type(model: &ContainerModel, errors: &mut Accumulator) {
    let name = &model.ident;
    errors.unless(
        !model.variants.is_empty() || model.has_unreadable_variants,
        name.span(),
        || format!("`{name}` has no document types; add a variant for each"),
    );
}

fn inherited_settings_are_not_repeated(model: &ContainerModel, errors: &mut Accumulator) {
    let name = &model.ident;
    let repeated = [
        ("partition_key", model.settings.partition_key.word()),
        ("discriminator", model.settings.discriminator.word()),
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

fn partition_key_is_known(model: &ContainerModel, errors: &mut Accumulator) {
    let name = &model.ident;
    // An unreadable variant may be the container that this one extends.
    let mut variants = model.variants.iter();
    let fine = model.settings.partition_key.is_given()
        || model.settings.unreadable
        || model.has_unreadable_variants
        || model.variants.is_empty()
        || variants.any(|variant| variant.settings.unreadable || !variant.names(name));
    errors.unless(fine, name.span(), || {
        format!("the types of `{name}` take their partition key from `{name}`; add `#[container(partition_key = \"/…\")]` with its path")
    });
}

fn partition_key_has_paths(model: &ContainerModel, errors: &mut Accumulator) {
    let setting = &model.settings.partition_key;
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

fn discriminator_is_unreserved(model: &ContainerModel, errors: &mut Accumulator) {
    let setting = &model.settings.discriminator;
    let (Some(property), Some(span)) = (setting.get(), setting.span()) else {
        return;
    };
    let property = &property.0;
    let fine = !property.is_empty()
        && !matches!(&**property, "id" | "ttl" | "schemaVersion" | "writeMark")
        && !property.starts_with('_')
        && !property.contains(['/', '"', '\\', '~']);
    errors.unless(fine, span, || {
        format!(
            "`{property}` cannot be the discriminator; use a property that neither the service nor the model reserves, without `/`, `\\`, `~` and quotation marks, for example `type`"
        )
    });
}
