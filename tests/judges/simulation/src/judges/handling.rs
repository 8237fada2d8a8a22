//! The handlers of messages that run now, and a judge of them: a due message of a stream is handed
//! out in time, and a message that is handed out to a healthy node is neither taken away from it
//! nor handed out a second time before its handler ends.
//!
//! It reads nothing from the store: the clients note what they stored, the handlers that they run.

use std::collections::BTreeMap;
use std::sync::MutexGuard;
use std::time::Duration;

use async_trait::async_trait;

use crate::caller::{Caller, Seen};
use crate::excuses::{Excuses, Scope};
use crate::guarded::Guarded;
use crate::judge::{Judge, MOST_PROBLEMS};
use crate::network::MEMBERS;
use crate::virtual_time::elapsed;

/// The time before a second hand-out in which a fault explains it: the longest claim or lease, and
/// the time to notice.
const EXPLAINED: Duration = Duration::from_secs(60);

/// How long a message whose handler was lost may wait for others like it: three slow ones of 30 s
/// each.
const SUSPECTS: Duration = Duration::from_secs(3 * 30);

/// A logical partition: the container and the partition key.
pub(crate) type Place = (&'static str, String);

/// The running handlers of all nodes, and the due messages of streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handling {
    state: Guarded<State>,
    excuses: Excuses,
}

#[derive(Debug, Default)]
struct State {
    runs: u64,
    /// The runs of each message's handler that have not ended.
    running: BTreeMap<String, Vec<Run>>,
    streams: BTreeMap<String, Stream>,
    /// The physical partition of each place.
    ranges: BTreeMap<Place, String>,
    problems: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    number: u64,
    node: u32,
}

/// A stream whose messages are numbered from 1.
#[derive(Debug, Default)]
struct Stream {
    place: Place,
    /// When each message was stored, of those that are not handled.
    stored: BTreeMap<u64, Duration>,
    /// The last message that is handled.
    done: u64,
    /// Since when the next one can be handed out.
    free_since: Duration,
    /// Whether a handler of the next one was lost, so that it waits for other such messages.
    is_suspect: bool,
    is_reported: bool,
}

/// The next message of a stream, which is not being handled.
#[derive(Debug)]
struct Waiting {
    stream: String,
    number: u64,
    place: Place,
    since: Duration,
    is_suspect: bool,
}

/// A message of a stream, or any other one.
#[derive(Clone, Debug)]
pub(crate) struct Handled {
    /// The stream and the number of its message.
    pub(crate) of_stream: Option<(String, u64)>,
    /// The text that identifies the message.
    pub(crate) name: String,
    pub(crate) place: Place,
}

/// A running handler.
#[derive(Debug)]
pub(crate) struct Running {
    handling: Handling,
    message: Handled,
    run: Run,
    since: Duration,
    has_ended: bool,
}

impl Handled {
    /// Returns the message with this number of a stream.
    pub(crate) fn in_stream(stream: &str, number: u64, place: Place) -> Self {
        Self {
            of_stream: Some((stream.to_owned(), number)),
            name: format!("{stream} message {number}"),
            place,
        }
    }
}

#[async_trait]
impl Judge for Handling {
    fn name(&self) -> &'static str {
        "handling"
    }

    /// Forgets what a killed node is handling. Its handlers go on without an effect.
    fn killed(&self, node: u32) {
        let state = &mut *self.lock();
        for runs in state.running.values_mut() {
            runs.retain(|run| run.node != node);
        }
        for (name, stream) in &mut state.streams {
            let next = Handled::in_stream(name, stream.done + 1, Place::default());
            if state.running.get(&next.name).is_some_and(Vec::is_empty) {
                stream.free_since = elapsed();
                stream.is_suspect = true;
            }
        }
        state.running.retain(|_, runs| !runs.is_empty());
    }

    async fn judge(&self, _: &Caller, _: &Seen) -> Result<Vec<String>, String> {
        Ok(std::mem::take(&mut self.lock().problems))
    }
}

impl Handling {
    pub(crate) fn new(excuses: &Excuses) -> Self {
        Self {
            excuses: excuses.clone(),
            ..Self::default()
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Adds a place whose faults concern messages.
    pub(crate) fn add(&self, place: Place) {
        self.lock().ranges.entry(place).or_default();
    }

    /// Returns the places of the messages so far.
    pub(crate) fn places(&self) -> Vec<Place> {
        self.lock().ranges.keys().cloned().collect()
    }

    /// Sets the physical partitions of places.
    pub(crate) fn set_ranges(&self, ranges: BTreeMap<Place, String>) {
        self.lock().ranges.extend(ranges);
    }

    /// Notes that a node begins to handle a message.
    pub(crate) fn begin(&self, message: Handled, node: u32) -> Running {
        let mut state = self.lock();
        state.ranges.entry(message.place.clone()).or_default();
        state.runs += 1;
        let number = state.runs;
        let run = Run { number, node };
        let runs = state.running.entry(message.name.clone()).or_default();
        let other = runs.first().copied();
        runs.push(run);
        drop(state);
        if let Some(other) = other {
            let other = other.node;
            let what = format!("node {node} handles it while node {other} does");
            self.blame(&message, &[node, other], &what);
        }
        Running {
            handling: self.clone(),
            message,
            run,
            since: elapsed(),
            has_ended: false,
        }
    }

    /// Reports a problem, unless a fault of the last minute can have caused it.
    fn blame(&self, message: &Handled, nodes: &[u32], what: &str) {
        let now = elapsed();
        let since = now.saturating_sub(EXPLAINED);
        let concerns = |scope: &Scope| self.concerns(scope, &message.place, nodes);
        if self.excuses.time(&(since..now), concerns).is_zero() {
            let faults = self.excuses.of(since, now);
            let (name, at) = (&message.name, now.as_secs_f64());
            self.report(format!("{name}: at {at:.0} s {what}; faults: {faults:?}"));
        }
    }

    /// Returns whether a fault can delay messages in a place, or what these nodes do.
    fn concerns(&self, scope: &Scope, place: &Place, nodes: &[u32]) -> bool {
        match scope {
            Scope::Everything => true,
            Scope::Node(node) => nodes.contains(node),
            Scope::Partition(container, range) => {
                let state = self.lock();
                let roster = (place.0, MEMBERS.to_owned());
                let own = [place, &roster].map(|place| state.ranges.get(place));
                *container == place.0 && own.contains(&Some(range))
            }
            Scope::Loads => false,
        }
    }

    fn report(&self, problem: String) {
        let problems = &mut self.lock().problems;
        if problems.len() < MOST_PROBLEMS {
            problems.push(problem);
        }
    }

    /// Notes that message `number` of a stream is stored.
    pub(crate) fn stored(&self, stream: &str, number: u64, place: Place) {
        let mut state = self.lock();
        state.ranges.entry(place.clone()).or_default();
        let stream = state.streams.entry(stream.to_owned()).or_default();
        stream.place = place;
        // The answer to a write may come after the message was handled.
        if number > stream.done {
            stream.stored.insert(number, elapsed());
        }
    }

    /// Reports the streams whose next message has waited for longer than `bound`.
    pub(crate) fn judge_waiting(&self, bound: Duration) {
        let now = elapsed();
        let all = self.lock().waiting();
        for waiting in all {
            let concerns = |scope: &Scope| self.concerns(scope, &waiting.place, &[]);
            let since = waiting.since;
            let excused = self.excuses.time(&(since..now), concerns);
            let waited = now.saturating_sub(since).saturating_sub(excused);
            let others = if waiting.is_suspect {
                SUSPECTS
            } else {
                Duration::ZERO
            };
            if waited > bound + others {
                let faults = self.excuses.of(since, now);
                let (name, number) = (&waiting.stream, waiting.number);
                let (since, waited) = (since.as_secs(), waited.as_secs());
                self.report(format!(
                    "{name}: message {number} is due since {since} s and not handed out for \
                     {waited} s; faults: {faults:?}"
                ));
                let mut state = self.lock();
                state.streams.entry(waiting.stream).or_default().is_reported = true;
            }
        }
    }
}

impl State {
    /// Returns the next messages of all streams with no message that is being handled: an earlier
    /// one is handled again if its end could not be stored.
    fn waiting(&self) -> Vec<Waiting> {
        let waiting = self.streams.iter().filter_map(|(name, stream)| {
            let (number, stored) = stream.stored.first_key_value()?;
            let any = format!("{name} message ");
            let mut running = self.running.range(any.clone()..);
            let is_running = running.next().is_some_and(|(of, _)| of.starts_with(&any));
            (!is_running && !stream.is_reported).then(|| Waiting {
                stream: name.clone(),
                number: *number,
                place: stream.place.clone(),
                since: stream.free_since.max(*stored),
                is_suspect: stream.is_suspect,
            })
        });
        waiting.collect()
    }

    /// Removes a run. Returns whether it was known: those of killed nodes are not.
    fn remove(&mut self, message: &Handled, run: Run) -> bool {
        let Some(runs) = self.running.get_mut(&message.name) else {
            return false;
        };
        let before = runs.len();
        runs.retain(|other| *other != run);
        let was_known = runs.len() < before;
        if runs.is_empty() {
            self.running.remove(&message.name);
        }
        if let Some((stream, _)) = &message.of_stream {
            self.streams.entry(stream.clone()).or_default().free_since = elapsed();
        }
        was_known
    }
}

impl Running {
    /// Notes that the handler has ended by itself, with this success.
    pub(crate) fn end(mut self, succeeded: bool) {
        self.has_ended = true;
        let mut state = self.handling.lock();
        let is_known = state.remove(&self.message, self.run);
        if let Some((stream, number)) = &self.message.of_stream
            && succeeded
            && is_known
        {
            let stream = state.streams.entry(stream.clone()).or_default();
            stream.done = stream.done.max(*number);
            stream.is_suspect = false;
            stream.stored.retain(|stored, _| stored > number);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.has_ended || !self.handling.lock().remove(&self.message, self.run) {
            return;
        }
        let ran = elapsed().saturating_sub(self.since).as_secs();
        if let Some((stream, _)) = &self.message.of_stream {
            let mut state = self.handling.lock();
            state.streams.entry(stream.clone()).or_default().is_suspect = true;
        }
        let node = self.run.node;
        let what = format!("its handler on node {node} was cancelled after {ran} s");
        self.handling.blame(&self.message, &[node], &what);
    }
}
