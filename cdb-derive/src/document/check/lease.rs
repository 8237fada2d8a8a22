//! What a lease needs: a field of its own that is always stored and may change.

use darling::error::Accumulator;

use crate::diag::{Mistakes, mistake};
use crate::document::model::{DocumentModel, FieldModel, Given};

pub(super) fn there_is_one(model: &DocumentModel, errors: &mut Accumulator) {
    let marks = model.fields.iter().filter_map(|field| field.lease);
    for second in marks.skip(1) {
        errors.push(mistake(
            second,
            format!(
                "second lease on `{}`; a document is in one pair of hands, so keep one",
                model.ident
            ),
        ));
    }
}

pub(super) fn stands_alone(model: &DocumentModel, field: &FieldModel, errors: &mut Accumulator) {
    let (Some(span), name) = (field.lease, &field.name) else {
        return;
    };
    errors.unless(!model.is_fixed(field), span, || {
        let role = if field.partition_key.is_some() {
            "the partition key"
        } else {
            "part of the id"
        };
        format!(
            "`{name}` is {role}, which never changes, and a lease does; give the lease a field of its own"
        )
    });
    errors.unless(field.ttl.is_none(), span, || {
        format!(
            "`{name}` is the time to live, which the service reads; give the lease a field of its own"
        )
    });
    let none = field.indexing_given == Given::Nothing;
    errors.unless(none, field.indexing_span, || {
        format!("the lease `{name}` is indexed by its expiry already; remove this setting")
    });
    if let Some(skipped) = field.skip_serializing_if {
        errors.push(mistake(
            skipped,
            format!(
                "`{name}` is the lease, whose token must outlive its holder; remove `skip_serializing_if`"
            ),
        ));
    }
}
