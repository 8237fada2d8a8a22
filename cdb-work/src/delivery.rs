//! How a message came to its handler.

/// How a claimed message came to its handler.
///
/// ```
/// use std::time::Duration;
/// use cdb_work::{Delivery, NewWork};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// # work.immediate().store(NewWork::inbox("order-7", "paid-1")).await?;
/// let claimed = work.claim(1, Duration::from_secs(60)).await.pop().expect("it was stored");
/// // Look for effects outside of the store only if there may be some.
/// assert_eq!(claimed.delivery(), Delivery::New);
/// # claimed.release(); work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// The message was not handed out before, as far as this coordinator knows.
    New,
    /// An earlier attempt failed.
    Retried,
    /// The message may have been handed out by another coordinator that lost its partition, for
    /// example because its process ended. The outcome of that attempt is unknown.
    TakenOver,
}
