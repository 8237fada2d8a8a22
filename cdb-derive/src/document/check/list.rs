//! The list of rules.

use darling::error::Accumulator;

use super::{computed, identity, paths, roles, search, stored, version};
use crate::document::model::DocumentModel;

/// Checks the rules of a partition key that is a struct.
pub(in crate::document) fn partition_key(model: &DocumentModel, errors: &mut Accumulator) {
    stored::names_differ(model, errors);
    for field in &model.fields {
        identity::keys_are_not_optional(model, field, errors);
        stored::name_is_not_reserved(field, errors);
        stored::key_path_is_plain(model, field, errors);
        stored::name_has_no_meaning(field, errors);
        stored::required_fields_are_stored(model, field, errors);
        version::flattens_unknown_fields_or_the_key(field, errors);
    }
}

/// Checks the rules of the model.
pub(in crate::document) fn all(model: &DocumentModel, errors: &mut Accumulator) {
    identity::type_is_given(model, errors);
    identity::id_is_given(model, errors);
    identity::partition_key_is_given(model, errors);
    identity::partition_key_levels_are_complete(model, errors);
    identity::placeholders_are_fields(model, errors);
    identity::id_parts_are_placeholders(model, errors);
    paths::composites_are_sortable(model, errors);
    paths::uniques_are_fields(model, errors);
    paths::constants_differ(model, errors);
    stored::names_differ(model, errors);
    version::has_all_upcasts(model, errors);
    version::keeps_newer_fields(model, errors);
    roles::at_most_one_field_each(model, errors);
    for (at, property) in model.computed.iter().enumerate() {
        computed::is_unambiguous(model, at, errors);
        computed::has_stored_fields(model, property, errors);
    }
    for field in &model.fields {
        identity::keys_are_not_optional(model, field, errors);
        paths::indexing_is_unambiguous(field, errors);
        stored::name_is_not_reserved(field, errors);
        stored::name_is_one_property(field, errors);
        stored::key_path_is_plain(model, field, errors);
        stored::required_fields_are_stored(model, field, errors);
        stored::ttl_has_its_stored_name(field, errors);
        roles::has_its_own_field(model, field, errors);
        version::flattens_unknown_fields_or_the_key(field, errors);
        search::vector_is_within_limits(field, errors);
    }
}
