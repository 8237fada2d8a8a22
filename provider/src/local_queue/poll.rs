//! The polls of a queue.

use std::time::Instant;

use super::pace::Pace;
use super::slot::PollNumber;

/// The polls of a queue. One background poll runs at a time and serves all dispatchers.
#[derive(Debug)]
pub(super) struct Polls {
    pub(super) pace: Pace,
    pub(super) is_polling: bool,
    last: PollNumber,
    closed: bool,
}

impl Polls {
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            pace,
            is_polling: false,
            last: 0,
            closed: false,
        }
    }

    /// Returns the number of a new poll.
    pub(super) fn number(&mut self) -> PollNumber {
        self.last += 1;
        self.last
    }

    /// Returns the start of the next poll; `None` while one runs.
    pub(super) fn next_start(&self) -> Option<Instant> {
        (!self.is_polling && !self.closed).then(|| self.pace.next())
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }
}
