//! The stubs of a document with mistakes: items that other code uses, so that a mistake causes no
//! further errors.

use std::collections::HashSet;

use proc_macro2::Span;

use super::model::{DocumentModel, Indexing};

/// Makes the generated items compile and never run. Every path becomes filterable and patchable, and
/// the partition key disappears, which disables the checks of a container. Of two constants with the
/// same name, which have been reported, one remains.
pub(super) fn permissive(mut model: DocumentModel) -> DocumentModel {
    let mut seen = HashSet::new();
    for field in &mut model.fields {
        if !seen.insert(field.constant.to_string()) {
            field.serde.skip = Some((String::new(), Span::call_site()));
        }
        field
            .nested
            .retain(|nested| seen.insert(nested.constant.to_string()));
        field.indexing = Indexing::Indexed;
        field.partition_key = None;
    }
    model
        .computed
        .retain(|computed| seen.insert(computed.constant.to_string()));
    model
        .settings
        .composite
        .retain(|composite| seen.insert(composite.name.to_string()));
    model.is_stub = true;
    model
}
