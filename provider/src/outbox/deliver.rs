//! From intents to documents in their targets' partitions.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::documents::Documents;
use super::messages::Mailbag;
use super::{Undelivered, activities, remove};
use crate::documents::OutboxIntent;
use crate::provider::Inner;

/// Most intents of one round.
const ROUND: usize = 100;

/// How long delivered intents wait for others, to be removed in one request.
const LINGER: Duration = Duration::from_millis(20);

/// What is to be delivered. One round at a time: what comes meanwhile travels together in the next.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Waiting>,
    /// Delivered, to be removed.
    delivered: Vec<OutboxIntent>,
    at_work: bool,
}

#[derive(Debug)]
struct Waiting {
    intent: OutboxIntent,
    /// Told when the intent has had its turn, whatever came of it.
    done: oneshot::Sender<()>,
}

impl Outbox {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state is valid between any two statements, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Delivers fresh intents. What fails is left to the reconciler.
pub(crate) async fn deliver_all(inner: &Inner, intents: Vec<OutboxIntent>) {
    if intents.is_empty() {
        return;
    }
    let mut answers = Vec::with_capacity(intents.len());
    let idle = {
        let mut state = inner.outbox.state();
        for intent in intents {
            let (done, answer) = oneshot::channel();
            answers.push(answer);
            state.waiting.push(Waiting { intent, done });
        }
        !std::mem::replace(&mut state.at_work, true)
    };
    if idle {
        inner.spawn(|inner| async move { work(&inner).await });
    }
    for answer in answers {
        // A round that was dropped has delivered nothing; the reconciler will.
        let _dropped = answer.await;
    }
}

/// Delivers round after round until nothing waits.
async fn work(inner: &Inner) {
    loop {
        let (waiting, delivered) = {
            let mut state = inner.outbox.state();
            let count = state.waiting.len().min(ROUND);
            let waiting: Vec<Waiting> = state.waiting.drain(..count).collect();
            (waiting, std::mem::take(&mut state.delivered))
        };
        if waiting.is_empty() && delivered.is_empty() {
            let mut state = inner.outbox.state();
            if state.waiting.is_empty() {
                state.at_work = false;
                return;
            }
            continue;
        }
        let (intents, done): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .map(|waiting| (waiting.intent, waiting.done))
            .unzip();
        let results = deliver(inner, &intents, &delivered).await;
        for done in done {
            // Nobody waits for it any more.
            let _unheard = done.send(());
        }
        let mut fresh = Vec::new();
        for (intent, result) in intents.into_iter().zip(results) {
            match result {
                Ok(()) => fresh.push(intent),
                Err(error) => tracing::warn!(
                    instance = %intent.instance_id,
                    target_instance = %intent.target_instance_id,
                    %error,
                    "messages were not delivered and will be tried again"
                ),
            }
        }
        inner.outbox.state().delivered.append(&mut fresh);
        let idle = inner.outbox.state().waiting.is_empty();
        if idle {
            tokio::time::sleep(LINGER).await;
        }
    }
}

/// Creates the documents of intents, wakes who waits for them, and removes intents that were delivered earlier.
pub(super) async fn deliver(
    inner: &Inner,
    intents: &[OutboxIntent],
    delivered: &[OutboxIntent],
) -> Vec<Result<(), Undelivered>> {
    let mut results: Vec<Result<(), Undelivered>> = Vec::with_capacity(intents.len());
    let mut bag = Mailbag::default();
    for intent in delivered {
        if intent.more.is_some() {
            remove::chunked(inner, intent).await;
        } else {
            bag.remove(intent);
        }
    }
    for (number, intent) in intents.iter().enumerate() {
        let result = match Documents::of(inner, intent).await {
            Ok(documents) => {
                let mut messages = documents.messages.into_iter();
                let put = messages.try_for_each(|message| bag.put(inner, number, message));
                match put {
                    Ok(()) => activities::deliver(inner, intent, &documents.activities).await,
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        results.push(result);
    }
    for (number, failure) in bag.send(inner).await {
        results[number] = Err(failure);
    }
    results
}
