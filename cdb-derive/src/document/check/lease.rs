//! The rules of a lease: it has its own field, which is always stored and may change.

use darling::error::Accumulator;

use crate::diag::{Mistakes, mistake};
use crate::document::model::{DocumentModel, FieldModel, Given};

pub(super) fn has_its_own_field(
    model: &DocumentModel,
    field: &FieldModel,
    errors: &mut Accumulator,
) {
    let (Some(span), name) = (field.lease, &field.name) else {
        return;
    };
    if let Some(role) = model.fixed_role(field) {
        let text =
            format!("`{name}` is {role}, which never changes; put the lease into its own field");
        errors.push(mistake(span, text));
    }
    errors.unless(field.ttl.is_none(), span, || {
        format!("`{name}` is the time to live, which the service reads; put the lease into its own field")
    });
    let none = field.indexing_given == Given::Nothing;
    errors.unless(none, field.indexing_span, || {
        format!("the lease `{name}` is already indexed by its expiry; remove this setting")
    });
    if let Some(skipped) = field.skip_serializing_if {
        let text = format!(
            "`{name}` is the lease, so it must always be stored; remove `skip_serializing_if`"
        );
        errors.push(mistake(skipped, text));
    }
}
