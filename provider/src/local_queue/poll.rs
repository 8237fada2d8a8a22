//! When the polls of a queue start.

use std::time::Instant;

use super::pace::Pace;
use super::slot::PollNumber;

/// The polls of a queue. One at a time runs in the background and serves all dispatchers.
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

    /// Numbers a poll.
    pub(super) fn number(&mut self) -> PollNumber {
        self.last += 1;
        self.last
    }

    /// When the next poll is to start; `None` while one runs.
    pub(super) fn next_start(&self) -> Option<Instant> {
        (!self.is_polling && !self.closed).then(|| self.pace.next())
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }
}
