//! The rules of vectors.

use darling::error::Accumulator;

use crate::document::model::FieldModel;
use crate::input::diag::Mistakes;

/// The limits of `cdb_model::limits`, which a derive cannot use.
const MAX_DIMENSIONS: u32 = 4096;
const MAX_FLAT_DIMENSIONS: u32 = 505;

pub(super) fn vector_is_within_limits(field: &FieldModel, errors: &mut Accumulator) {
    let Some(vector) = field.settings.vector.get() else {
        return;
    };
    let (dimensions, span) = (vector.dimensions, vector.span);
    errors.unless((1..=MAX_DIMENSIONS).contains(&dimensions), span, || {
        format!(
            "a vector has 1 to {MAX_DIMENSIONS} dimensions; `{}` has {dimensions}",
            field.name
        )
    });
    let fits = vector.index != "Flat" || dimensions <= MAX_FLAT_DIMENSIONS;
    errors.unless(fits, span, || {
        format!(
            "a flat index has at most {MAX_FLAT_DIMENSIONS} dimensions; use `index = quantized_flat` or `index = disk_ann`"
        )
    });
}
