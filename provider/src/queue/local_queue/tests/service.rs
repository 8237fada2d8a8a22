//! A service for the requests of limits, which answers at once. Only this process uses it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::{Paint, request};
use crate::queue::limits::protocol::{
    Answer, Condition, Entry, Field, Key, LeaseAnswer, Line, Message, Operation, Patch, Reply,
    Request,
};
use crate::queue::local_queue::queue::Queue;

/// The free workers while requests are sent.
const ROOM: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Service {
    lines: HashMap<Key, Line>,
}

impl Service {
    /// Sends and answers all that is due.
    pub(super) fn serve(&mut self, queue: &mut Queue<Paint>, now: Instant) {
        let waiters: Vec<_> = (0..ROOM).map(|_| queue.register(request(0))).collect();
        loop {
            let (messages, by, _) = queue.requests(now);
            if messages.is_empty() {
                break;
            }
            for message in messages {
                let reply = match message {
                    Message::Lease(request) => Reply::Lease(request, LeaseAnswer::Written),
                    Message::Line(key, request) => {
                        let answer = self.answer(&key, &request);
                        Reply::Line(key, answer)
                    }
                };
                queue.answered(&by, reply, now);
            }
        }
        for waiter in waiters {
            queue.leave(waiter, now);
        }
    }

    /// Returns the permits of a key, which this process holds; `None` if the key has no such limit.
    pub(super) fn permits(&self, key: &Key) -> Option<usize> {
        let line = self.lines.get(key).filter(|line| line.cap > 0)?;
        let held = line.holders.values().map(|entry| entry.held).sum::<i64>();
        usize::try_from(held).ok()
    }

    fn answer(&mut self, key: &Key, request: &Request) -> Answer {
        let line = match (request, self.lines.get(key)) {
            (Request::Create(line), None) | (Request::Read, Some(line)) => line.clone(),
            (Request::Patch(patch), Some(line)) => match patched(line.clone(), patch) {
                Some(line) => line,
                None => return Answer::Refused,
            },
            (Request::Create(_), Some(_)) => return Answer::Refused,
            (_, None) => return Answer::Missing,
        };
        self.lines.insert(key.clone(), line.clone());
        Answer::Line(Arc::new(line))
    }
}

/// Applies a patch, if there are as many free permits as it needs. No other process interferes.
fn patched(mut line: Line, patch: &Patch) -> Option<Line> {
    for condition in &patch.conditions {
        let holds = match condition {
            Condition::AtLeast(Field::Free, least) => line.free >= *least,
            Condition::AtLeast(Field::Tat, least) => line.tat >= *least,
            Condition::TatBelow(end) => line.tat < *end,
            Condition::HasNoEntry(id) => !line.holders.contains_key(id),
            _ => true,
        };
        if !holds {
            return None;
        }
    }
    for operation in &patch.operations {
        match operation {
            Operation::Add(field, by) => *number(&mut line, field) += by,
            Operation::Set(field, to) => *number(&mut line, field) = *to,
            Operation::SetBy(id, seq) => line.by = Some((id.clone(), *seq)),
            Operation::Insert(id) => {
                line.holders.insert(id.clone(), Entry::default());
            }
            Operation::Remove(id) => {
                line.holders.remove(id);
            }
        }
    }
    Some(line)
}

fn number<'a>(line: &'a mut Line, field: &Field) -> &'a mut i64 {
    match field {
        Field::Rule => &mut line.rule,
        Field::Cap => &mut line.cap,
        Field::Free => &mut line.free,
        Field::Tat => &mut line.tat,
        Field::Held(id) => &mut line.holders.entry(id.clone()).or_default().held,
        Field::Seq(id) => &mut line.holders.entry(id.clone()).or_default().seq,
        Field::Since(id) => &mut line.holders.entry(id.clone()).or_default().since,
        Field::Wants(id) => &mut line.holders.entry(id.clone()).or_default().wants,
    }
}
