//! The state machine: a store that executes one request at a time, and two runtimes whose requests
//! interleave freely.
//!
//! The runtimes lock an instance with one message to consume, or begin a turn without a stored lock,
//! which they may store later; an activity with its end is the same machine without such turns. The commit writes an intent, from which a message is delivered to a receiver. A request
//! is one step; its answer may be lost.

use super::rules::Rules;

/// A condition of the protocol. All are necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// A lock is conditional on the version read (`turn/lock.rs`).
    LockIfMatch,
    /// A commit is conditional on the version that was read, or that the lock left
    /// (`commit/send.rs`).
    CommitIfMatch,
    /// A commit stores its token, which proves after a lost answer that it took effect
    /// (`turn/lock.rs`).
    CommitToken,
    /// The commit's batch creates the turn's outgoing messages (`commit/outgoing.rs`).
    IntentWithCommit,
    /// A message's id is derived from its intent (`outbox`).
    DerivedIds,
    /// A consumed message leaves a trace under its id.
    Trace,
}

/// A version of the instance; also the token of the lock that left it.
type Version = u8;

/// The next action of a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Runtime {
    /// Fetch.
    Idle,
    /// Lock the instance that it has read.
    Seen(Version),
    /// Check whether its lock took effect.
    UnsureLock(Version),
    /// Renew or commit.
    Holds(Turn),
    /// Check whether its commit took effect.
    UnsureCommit(Turn),
    /// Write its intent, if that is not part of the commit.
    WritesIntent,
    /// Deliver.
    Delivers,
    /// Remove the delivered intent.
    Removes,
}

/// A turn: the token of its lock, stored or not, and the version that its commit replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Turn {
    token: Version,
    etag: Version,
}

/// The message at its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Delivered {
    Never,
    Queued,
    Trace,
}

/// The remaining failures, which bound the exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Misfortunes {
    crashes: u8,
    lost_answers: u8,
    /// Locks that expire while their holder runs: it was paused.
    pauses: u8,
    renewals: u8,
}

/// A violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Wrong {
    /// A lock was taken before it expired.
    Stolen,
    /// A runtime treated its successful commit as lost.
    Denied,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    version: Version,
    lock: Option<Version>,
    /// Whether the lock has expired.
    expired: bool,
    committed: Option<Version>,
    consumed: u8,
    intent: bool,
    message: Delivered,
    received: u8,
    wrong: Option<Wrong>,
    runtimes: [Runtime; 2],
    left: Misfortunes,
}

type Step = (&'static str, State);

impl State {
    pub(super) fn start() -> Self {
        Self {
            version: 0,
            lock: None,
            expired: false,
            committed: None,
            consumed: 0,
            intent: false,
            message: Delivered::Never,
            received: 0,
            wrong: None,
            runtimes: [Runtime::Idle; 2],
            left: Misfortunes {
                crashes: 2,
                lost_answers: 2,
                pauses: 2,
                renewals: 1,
            },
        }
    }

    /// The invariants.
    pub(super) fn violation(&self) -> Option<String> {
        let found = [
            (self.consumed > 1, "the message was consumed twice"),
            (self.received > 1, "the message was delivered twice"),
            (self.wrong == Some(Wrong::Stolen), "two holders of one lock"),
            (
                self.wrong == Some(Wrong::Denied),
                "a lost answer was answered wrongly",
            ),
        ];
        let found = found.iter().find(|(violated, _)| *violated);
        found.map(|(_, what)| (*what).to_owned())
    }

    /// Whether everything has happened and no work is left.
    pub(super) fn is_done(&self) -> bool {
        self.consumed == 1 && self.received == 1 && !self.intent
    }

    /// Returns all possible next steps.
    pub(super) fn steps(&self, rules: Rules<Condition>) -> Vec<Step> {
        let mut steps = Vec::new();
        for runtime in 0..self.runtimes.len() {
            self.act(runtime, rules, &mut steps);
            self.crash(runtime, &mut steps);
        }
        self.time(&mut steps);
        self.receive(rules, &mut steps);
        steps
    }

    fn with(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut after = self.clone();
        change(&mut after);
        after
    }

    /// A successful request: its answer arrives or is lost.
    fn request(
        &self,
        runtime: usize,
        (step, lost): (&'static str, &'static str),
        (then, unsure): (Runtime, Runtime),
        effect: impl Fn(&mut Self),
    ) -> Vec<Step> {
        let done = self.with(|state| {
            effect(state);
            state.runtimes[runtime] = then;
        });
        let mut steps = vec![(step, done)];
        if self.left.lost_answers > 0 {
            let silent = self.with(|state| {
                effect(state);
                state.left.lost_answers -= 1;
                state.runtimes[runtime] = unsure;
            });
            steps.push((lost, silent));
        }
        steps
    }

    fn go(&self, runtime: usize, step: &'static str, to: Runtime) -> Step {
        (step, self.with(|state| state.runtimes[runtime] = to))
    }

    fn act(&self, runtime: usize, rules: Rules<Condition>, steps: &mut Vec<Step>) {
        match self.runtimes[runtime] {
            Runtime::Idle => {
                if self.consumed == 0 && (self.lock.is_none() || self.expired) {
                    steps.push(self.go(runtime, "read", Runtime::Seen(self.version)));
                }
                if self.intent {
                    steps.push(self.go(runtime, "find the intent", Runtime::Delivers));
                }
            }
            Runtime::Seen(version) => {
                self.take_lock(runtime, version, rules, steps);
                steps.push(self.begin_unlocked(runtime, version));
            }
            Runtime::UnsureLock(token) => {
                let to = self.held(token).unwrap_or(Runtime::Idle);
                steps.push(self.go(runtime, "look for the lock", to));
            }
            Runtime::Holds(turn) => {
                self.renew(runtime, turn, steps);
                self.commit(runtime, turn, rules, steps);
            }
            Runtime::UnsureCommit(turn) => steps.push(self.resolve(runtime, turn, rules)),
            Runtime::WritesIntent => {
                let next = (Runtime::Delivers, Runtime::WritesIntent);
                let names = ("write the intent", "write the intent, unheard");
                steps.extend(self.request(runtime, names, next, |state| state.intent = true));
            }
            Runtime::Delivers => {
                let next = (Runtime::Removes, Runtime::Delivers);
                let names = ("deliver", "deliver, unheard");
                steps.extend(self.request(runtime, names, next, |state| state.deliver(rules)));
            }
            Runtime::Removes => {
                let next = (Runtime::Idle, Runtime::Idle);
                let names = ("remove the intent", "remove the intent, unheard");
                steps.extend(self.request(runtime, names, next, |state| state.intent = false));
            }
        }
    }

    /// The state of a runtime whose lock still exists, with the instance's current version.
    fn held(&self, token: Version) -> Option<Runtime> {
        let etag = self.version;
        (self.lock == Some(token)).then_some(Runtime::Holds(Turn { token, etag }))
    }

    /// Begins a turn without a lock. Its token differs from all others.
    fn begin_unlocked(&self, runtime: usize, etag: Version) -> Step {
        let number = Version::try_from(runtime).expect("two runtimes");
        let token = 100 + 2 * etag + number;
        let turn = Turn { token, etag };
        self.go(runtime, "begin without a lock", Runtime::Holds(turn))
    }

    fn take_lock(
        &self,
        runtime: usize,
        seen: Version,
        rules: Rules<Condition>,
        steps: &mut Vec<Step>,
    ) {
        if rules.has(&Condition::LockIfMatch) && self.version != seen {
            steps.push(self.go(runtime, "lock, too late", Runtime::Idle));
            return;
        }
        let token = self.version + 1;
        let next = (
            Runtime::Holds(Turn { token, etag: token }),
            Runtime::UnsureLock(token),
        );
        steps.extend(
            self.request(runtime, ("lock", "lock, unheard"), next, |state| {
                if state.lock.is_some() && !state.expired {
                    state.wrong = Some(Wrong::Stolen);
                }
                state.version = token;
                state.lock = Some(token);
                state.expired = false;
            }),
        );
    }

    /// Renews the lock, or stores it for the first time.
    fn renew(&self, runtime: usize, Turn { token, etag }: Turn, steps: &mut Vec<Step>) {
        if self.left.renewals == 0 {
            return;
        }
        if etag != self.version {
            steps.push(self.go(runtime, "renew, too late", Runtime::Idle));
            return;
        }
        let renewed = self.version + 1;
        let next = (
            Runtime::Holds(Turn {
                token,
                etag: renewed,
            }),
            Runtime::UnsureLock(token),
        );
        steps.extend(
            self.request(runtime, ("renew", "renew, unheard"), next, |state| {
                state.version = renewed;
                state.lock = Some(token);
                state.expired = false;
                state.left.renewals -= 1;
            }),
        );
    }

    fn commit(&self, runtime: usize, turn: Turn, rules: Rules<Condition>, steps: &mut Vec<Step>) {
        if rules.has(&Condition::CommitIfMatch) && turn.etag != self.version {
            steps.push(self.resolve(runtime, turn, rules));
            return;
        }
        let then = if rules.has(&Condition::IntentWithCommit) {
            Runtime::Delivers
        } else {
            Runtime::WritesIntent
        };
        let next = (then, Runtime::UnsureCommit(turn));
        steps.extend(
            self.request(runtime, ("commit", "commit, unheard"), next, |state| {
                state.version += 1;
                state.lock = None;
                state.expired = false;
                state.committed = Some(turn.token);
                state.consumed += 1;
                state.intent |= rules.has(&Condition::IntentWithCommit);
            }),
        );
    }

    /// Reads the instance and compares its version and tokens.
    fn resolve(&self, runtime: usize, turn: Turn, rules: Rules<Condition>) -> Step {
        let token = turn.token;
        if rules.has(&Condition::CommitToken) && self.committed == Some(token) {
            return self.go(runtime, "find the commit", Runtime::Delivers);
        }
        let is_unchanged = turn.etag == self.version;
        let unchanged = is_unchanged.then_some(Runtime::Holds(turn));
        let to = unchanged.or(self.held(token)).unwrap_or(Runtime::Idle);
        let denied = to == Runtime::Idle && self.committed == Some(token);
        let after = self.with(|state| {
            state.runtimes[runtime] = to;
            if denied {
                state.wrong = Some(Wrong::Denied);
            }
        });
        ("look for the commit", after)
    }

    fn deliver(&mut self, rules: Rules<Condition>) {
        // A new id never conflicts: the receiver gets a second message.
        if self.message == Delivered::Never || !rules.has(&Condition::DerivedIds) {
            self.message = Delivered::Queued;
        }
    }

    fn crash(&self, runtime: usize, steps: &mut Vec<Step>) {
        if self.left.crashes > 0 && self.runtimes[runtime] != Runtime::Idle {
            let after = self.with(|state| {
                state.left.crashes -= 1;
                state.runtimes[runtime] = Runtime::Idle;
            });
            steps.push(("crash", after));
        }
    }

    /// A lock expires: always after a crash, and a few times while its holder is slow.
    fn time(&self, steps: &mut Vec<Step>) {
        let Some(lock) = self.lock.filter(|_| !self.expired) else {
            return;
        };
        let is_holder = |runtime: &Runtime| match runtime {
            Runtime::Holds(turn) | Runtime::UnsureCommit(turn) => turn.token == lock,
            Runtime::UnsureLock(token) => *token == lock,
            _ => false,
        };
        let alive = self.runtimes.iter().any(is_holder);
        if alive && self.left.pauses == 0 {
            return;
        }
        let after = self.with(|state| {
            state.expired = true;
            state.left.pauses -= u8::from(alive);
        });
        steps.push(("the lock ends", after));
    }

    fn receive(&self, rules: Rules<Condition>, steps: &mut Vec<Step>) {
        if self.message == Delivered::Queued {
            let after = self.with(|state| {
                state.received += 1;
                state.message = if rules.has(&Condition::Trace) {
                    Delivered::Trace
                } else {
                    Delivered::Never
                };
            });
            steps.push(("receive", after));
        }
    }
}
