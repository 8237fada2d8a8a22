//! Whether the discriminator tells the document types apart.

use super::place::{Place, stored_path};
use super::text::{fail, same};

/// Checks that no field of the document is stored as the discriminator.
#[track_caller]
pub const fn check_discriminator(place: &Place) {
    let shape = place.shape();
    if place.is_stub() {
        return;
    }
    if let Some(path) = stored_path(shape, place.discriminator) {
        fail(&[
            "a field of `",
            shape.name,
            "` is stored at `",
            path,
            "`, where the container `",
            place.container,
            "` stores the discriminator; rename the field or the container's `discriminator`",
        ]);
    }
}

/// Checks that the discriminator differs from those of the types before.
#[track_caller]
pub const fn check_type(place: &Place) {
    let shape = place.shape();
    let mut other = 0;
    while other < place.own && !place.is_stub() {
        let first = place.documents[other];
        if same(first.discriminator, shape.discriminator) && !first.partition_key.is_empty() {
            fail(&[
                "`",
                first.name,
                "` and `",
                shape.name,
                "` have the same `",
                place.discriminator,
                "`; change one of them",
            ]);
        }
        other += 1;
    }
}
