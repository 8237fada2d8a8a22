//! A fetch of a dispatcher: it waits for an item of a local queue, and polls the store. The queue
//! decides each step.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::due::Due;
use super::polled::Polled;
use super::run;
use crate::error::Result;
use crate::queue::Services;
use crate::queue::local_queue::{
    Caller, FetchRequest, LocalQueue, Next, PollNumber, Taken, WaiterId,
};
use crate::timing::ATTEMPT_LOOK;

/// A fetch. It can be dropped at any time.
pub(crate) struct Fetch<'a, Q: Polled> {
    services: &'a Services,
    queue: &'a LocalQueue<Q>,
    /// The items that a poll for this fetch alone looks for.
    wanted: Q::Wanted,
    id: WaiterId,
    notify: Arc<Notify>,
    deadline: Instant,
    caller: Caller,
}

impl<'a, Q: Polled> Fetch<'a, Q> {
    /// Starts a fetch. A long poll waits until `poll_timeout` has passed.
    pub(crate) fn start(
        services: &'a Services,
        request: FetchRequest<Q::Capability>,
        poll_timeout: Duration,
        wanted: Q::Wanted,
    ) -> Self {
        let (caller, deadline) = (request.caller, Instant::now() + poll_timeout);
        let queue = Q::queue(services);
        let (id, notify) = queue.with(|queue, _| {
            let id = queue.register(request);
            (id, queue.notify(id))
        });
        Self {
            services,
            queue,
            wanted,
            id,
            notify,
            deadline,
            caller,
        }
    }

    /// Returns the next item for this fetch; `None` when its time is over.
    ///
    /// # Errors
    /// Fails when a poll for this fetch alone fails.
    pub(crate) async fn next(&mut self) -> Result<Option<Taken<'a, Q>>> {
        loop {
            let (next, due_poll) = self.step();
            if let Some(number) = due_poll {
                run::start::<Q>(self.services, number);
            }
            match next {
                Next::Try(claim, attempt) => {
                    return Ok(Some(Taken::Free(self.queue.guard(claim), attempt)));
                }
                Next::HandOut(claim, lock) => {
                    return Ok(Some(Taken::Locked(self.queue.guard(claim), *lock)));
                }
                Next::Poll(number) => {
                    let (services, wanted) = (self.services, &self.wanted);
                    let found = run::poll::<Q>(services, number, wanted, &Due::Anywhere).await?;
                    self.queue
                        .with(|queue, now| queue.end_own_poll(self.id, &found.keys, now));
                }
                Next::WaitForAttempt => tokio::time::sleep(ATTEMPT_LOOK).await,
                Next::End => return Ok(None),
                Next::Wait(_) if Instant::now() >= self.deadline => return Ok(None),
                Next::Wait(until) => {
                    let until =
                        until.map_or(self.deadline, |until| self.deadline.min(until.into()));
                    // Woken or not, the queue decides the next step.
                    let _woken = tokio::time::timeout_at(until, self.notify.notified()).await;
                }
            }
        }
    }

    /// Returns the next step, and the number of a poll for all dispatchers that is due.
    fn step(&self) -> (Next<Q>, Option<PollNumber>) {
        self.queue.with(|queue, now| {
            let next = queue.next(self.id, now);
            let needs_poll = matches!(next, Next::Wait(_))
                || queue.is_running_low()
                || queue.is_poll_overdue(now);
            let starts = (self.caller.is_runtime() && needs_poll).then(|| queue.start_poll(now));
            (next, starts.flatten())
        })
    }
}

impl<Q: Polled> Drop for Fetch<'_, Q> {
    fn drop(&mut self) {
        self.queue.with(|queue, now| queue.leave(self.id, now));
    }
}
