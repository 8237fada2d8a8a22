//! Whether the container lets documents expire.

use super::place::Place;
use super::text::fail;
use crate::container::DefaultTtl;

/// Checks that the container enables expiry if the document has a `ttl`, which has no effect
/// otherwise.
#[track_caller]
pub const fn check_ttl(place: &Place) {
    if place.shape().ttl.is_some()
        && !place.is_stub()
        && matches!(place.default_ttl, DefaultTtl::Off)
    {
        fail(&[
            "documents of `",
            place.shape().name,
            "` have a time to live, but the container `",
            place.container,
            "` disables expiry; remove its `default_ttl = \"off\"`",
        ]);
    }
}
