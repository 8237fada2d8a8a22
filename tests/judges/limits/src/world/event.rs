//! The queue of future events, in the order of their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::machine::{ItemId, Time};

/// The number of a node.
pub(crate) type NodeId = usize;

/// A process on a node: the node, and how often it has been restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) node: NodeId,
    pub(crate) incarnation: u32,
}

#[derive(Debug)]
pub(crate) enum Event<Request, Reply> {
    /// A turn schedules an item.
    Schedules(usize),
    /// A request arrives at the service.
    Arrives {
        from: Process,
        number: u64,
        request: Request,
    },
    Answered {
        to: Process,
        number: u64,
        reply: Reply,
    },
    TimesOut {
        to: Process,
        number: u64,
        reply: Reply,
    },
    Polls(Process),
    PollServed(Process),
    PollAnswered {
        to: Process,
        found: Vec<ItemId>,
    },
    ClaimServed {
        from: Process,
        item: ItemId,
    },
    ClaimAnswered {
        to: Process,
        item: ItemId,
        token: Option<u64>,
    },
    Ends {
        at: Process,
        item: ItemId,
    },
    Wakes(Process),
    /// A process renews the locks of its items.
    Renews(Process),
    /// The locks of a process may have expired.
    Expires(Process),
    LearnsRules(NodeId),
    Fails(usize),
    Restarts(NodeId),
}

impl<Request, Reply> Event<Request, Reply> {
    /// Returns the process that an event is for; `None` for one that no process handles.
    pub(crate) fn recipient(&self) -> Option<Process> {
        match self {
            Self::Answered { to, .. }
            | Self::TimesOut { to, .. }
            | Self::PollAnswered { to, .. }
            | Self::ClaimAnswered { to, .. } => Some(*to),
            Self::Ends { at, .. } => Some(*at),
            Self::Polls(process) | Self::Wakes(process) | Self::Renews(process) => Some(*process),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct Entry<E> {
    at: Time,
    number: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// Future events.
#[derive(Debug)]
pub(crate) struct Events<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    next: u64,
}

impl<E> Events<E> {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            next: 0,
        }
    }

    pub(crate) fn push(&mut self, at: Time, event: E) {
        self.next += 1;
        let number = self.next;
        self.heap.push(Reverse(Entry { at, number, event }));
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, E)> {
        let Reverse(Entry { at, event, .. }) = self.heap.pop()?;
        Some((at, event))
    }
}
