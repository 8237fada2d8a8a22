//! The items of one queue that this process knows, and the dispatchers that process them: one slot
//! per item.
//!
//! The slots are hints. The store decides who holds an item and who commits it, and a poll finds lost
//! items again. So nothing here is durable, and no other module may depend on an item being handed
//! out exactly once.
//!
//! [`Queue`] is a pure state machine: no clock, no I/O, no tasks. [`LocalQueue`] adds a mutex, and a
//! fetch of `queue/poll` waits. [`Work`] defines the items, their due times and the dispatchers that can
//! take them: instances and activities.
//!
//! ```text
//!            due                take              lock sent           won, handed out
//!   Idle ─────────► (ready) ─────────► Trying ─────────► Locking ─────────► Running
//!    ▲ ▲               ▲                 │ │                │                  │
//!    │ │ until         │ won by a batch  │ │ not now        │ fetch dropped    │
//!    │ └── Backoff ◄───┼─────────────────┼─┘                ▼                  │
//!    │                 └── Prelocked ◄───┘              Releasing              │
//!    └─────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! An item whose physical partition refuses requests or is slow goes from `Trying` to `Behind`: it is ready when no
//! other item is.
//!
//! A turn of reserved messages goes from `Trying` to `Running`: it is handed out without a lock.
//! `Trying` and `Locking` end with the guard of their attempt, every other phase but `Idle` by an event
//! or by its time.

mod claim;
mod dispatcher;
mod handing_out;
mod limited;
mod limiter;
mod pace;
mod polling;
mod queue;
mod slot;
mod transitions;
mod waiter;

#[cfg(test)]
mod tests;

pub(crate) use claim::{Caller, Shared, Won};
pub(crate) use dispatcher::{FetchRequest, MovingAverage, Next, Takers, WaiterId};
pub(crate) use limited::Reservation;
pub(crate) use limiter::Key;
pub(crate) use queue::Queue;
pub(crate) use slot::{Behind, Memory, Offer, PollNumber, Work};
pub(crate) use waiter::{Guard, LocalQueue, Taken};
