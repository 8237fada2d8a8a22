//! The service's clock, precise delays, and durations in JSON.

mod clock;
pub(crate) mod millis;
mod timer;

pub(crate) use clock::{Clock, stopwatch};
pub(crate) use timer::Timer;
