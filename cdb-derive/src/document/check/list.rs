//! The list of refusals.

use darling::error::Accumulator;

use super::{identity, lease, paths, stored};
use crate::document::attr::RawDocument;
use crate::document::model::DocumentModel;

/// What must be given.
pub(in crate::document) fn settings(raw: &RawDocument, errors: &mut Accumulator) {
    identity::type_is_given(raw, errors);
    identity::id_is_given(raw, errors);
}

/// What must fit together.
pub(in crate::document) fn all(model: &DocumentModel, errors: &mut Accumulator) {
    identity::partition_key_is_there(model, errors);
    identity::partition_key_levels_are_complete(model, errors);
    identity::placeholders_are_fields(model, errors);
    paths::composites_are_sortable(model, errors);
    paths::uniques_are_fields(model, errors);
    paths::constants_differ(model, errors);
    stored::names_differ(model, errors);
    lease::there_is_one(model, errors);
    for field in &model.fields {
        identity::keys_are_definite(model, field, errors);
        paths::indexing_is_one_thing(field, errors);
        stored::name_is_not_reserved(field, errors);
        stored::name_is_one_property(field, errors);
        stored::what_counts_is_stored(model, field, errors);
        stored::ttl_is_stored_as_such(field, errors);
        lease::stands_alone(model, field, errors);
    }
}
