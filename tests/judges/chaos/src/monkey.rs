//! Injects failures in an order that the seed decides.

use std::time::Duration;

use serde::Deserialize;
use tokio::sync::watch;

use crate::mix::{Breakage, Mix};
use crate::process::{Store, Worker};
use crate::random::Random;
use crate::runtime::{CONTAINER, DATABASE, LOCK};

/// The most physical partitions that splits may create.
const MOST_RANGES: usize = 8;

/// The largest offset of a clock, in milliseconds.
const WRONG: u64 = 30_000;
/// The runtimes' clock offsets at the start.
const FIRST_CLOCKS: [i64; 3] = [30_000, -30_000, 0];

/// The next failure.
#[derive(Clone, Copy, Debug)]
enum Action {
    Kill(usize),
    Pause(usize, Duration),
    Restart,
    Split(u64),
    SetClock(usize, i64),
}

/// Injects failures into the store and runtimes of a run.
#[derive(Debug)]
pub(crate) struct Monkey {
    pub(crate) store: Store,
    pub(crate) workers: Vec<Worker>,
    random: Random,
    may: &'static [Breakage],
    ranges: Vec<String>,
    /// The number of failures so far.
    pub(crate) done: usize,
}

impl Monkey {
    pub(crate) fn new(mix: &Mix, seed: u64, store: Store, workers: Vec<Worker>) -> Self {
        Self {
            store,
            workers,
            random: Random::new(seed),
            may: mix.breaks,
            ranges: vec!["0".to_owned()],
            done: 0,
        }
    }

    /// Injects one failure after another until it is stopped.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) -> Result<Self, String> {
        if self.may.contains(&Breakage::Clocks) {
            for (worker, ahead) in self.workers.iter_mut().zip(FIRST_CLOCKS) {
                worker.go_by_clock(ahead).await?;
            }
        }
        while !self.may.is_empty() {
            let wait = Duration::from_millis(self.random.between(200, 1500));
            let action = self.next();
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                // Stop on request, or when the sender is gone.
                _ = stop.wait_for(|stop| *stop) => return Ok(self),
            }
            self.carry_out(action).await?;
        }
        Ok(self)
    }

    fn next(&mut self) -> Action {
        let random = &mut self.random;
        match self.may[one_of(random, self.may.len())] {
            Breakage::Kills => Action::Kill(one_of(random, self.workers.len())),
            Breakage::Pauses => {
                let longest = u64::try_from(LOCK.as_millis()).unwrap_or(u64::MAX) * 2;
                let millis = random.between(500, longest);
                let worker = one_of(random, self.workers.len());
                Action::Pause(worker, Duration::from_millis(millis))
            }
            Breakage::Restarts => Action::Restart,
            Breakage::Splits => Action::Split(random.next()),
            Breakage::Clocks => {
                let worker = one_of(random, self.workers.len());
                Action::SetClock(
                    worker,
                    random.between(0, 2 * WRONG).cast_signed() - WRONG.cast_signed(),
                )
            }
        }
    }

    async fn carry_out(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Kill(worker) => self.workers[worker].replace().await,
            Action::Pause(worker, duration) => self.workers[worker].pause(duration).await,
            Action::Restart => self.store.restart().await,
            Action::Split(_) if self.ranges.len() >= MOST_RANGES => return Ok(()),
            Action::Split(which) => self.split(which).await,
            Action::SetClock(worker, ahead) => self.workers[worker].set_clock(ahead),
        }?;
        self.done += 1;
        Ok(())
    }

    async fn split(&mut self, which: u64) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Halves {
            children: [String; 2],
        }
        let at = usize::try_from(which).unwrap_or_default() % self.ranges.len();
        let range = self.ranges.swap_remove(at);
        let body =
            format!(r#"{{"database":"{DATABASE}","container":"{CONTAINER}","range":"{range}"}}"#);
        let answer = self.store.ask("POST", "/_admin/split", &body).await?;
        let halves: Halves = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
        self.ranges.extend(halves.children);
        Ok(())
    }
}

fn one_of(random: &mut Random, count: usize) -> usize {
    usize::try_from(random.next() % count.max(1) as u64).unwrap_or_default()
}
