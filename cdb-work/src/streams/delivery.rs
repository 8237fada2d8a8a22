//! How a message came to its handler.

/// How a claimed message came to its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeliveryReason {
    /// The message was not handed out before, as far as this coordinator knows.
    New,
    /// An earlier attempt failed.
    Retried,
    /// The message may have been handed out by another coordinator that lost its partition, for
    /// example because its process ended. The outcome of that attempt is unknown.
    TakenOver,
}
