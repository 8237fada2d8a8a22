//! Conservation: every queued event that a call has accepted is consumed once, in the order of its
//! sender's calls. Events are sent beside the start of a child, for orchestrations that no node
//! knows yet, to instances that continue as new with thousands of them, and to paused ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cdb_chaos::keep_trying;
use cdb_provider::TreeScope;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistryBuilder};
use futures::future::join_all;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::random::Random;
use crate::workload::{BOUND, Caller, Seen};

/// Consumes events until the last one, and returns them.
const GATHER: &str = "Gather";

/// The first part of the names of orchestrations that a later deployment brings, and of their
/// instances.
const LATER: &str = "Later";

/// Starts a child, and sends it events at the same time.
const BROOD: &str = "Brood";

/// The activity that sends the events.
const TELL: &str = "Tell";

/// The queue, and the event after all others.
const QUEUE: &str = "Events";
const LAST: &str = "last";

/// The time after the other events in which the last one is sent: clocks of nodes are up to 30 s
/// wrong, and order the events of two senders.
const CLOCKS: Duration = Duration::from_secs(70);

/// The longest time until a deployment.
const DEPLOYED: Duration = Duration::from_secs(300);

/// The sender of the events that the workload sends. Each run of [`TELL`] is another one: it may run
/// on two nodes at once.
const CALLER: u64 = 0;

/// The events of all instances.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent(Arc<Mutex<BTreeMap<String, Events>>>);

/// The events that calls have sent to an instance.
#[derive(Clone, Debug, Default)]
struct Events {
    /// Counts the beginnings and ends of calls, and the runs of the activity.
    steps: u64,
    accepted: BTreeMap<String, Call>,
    /// Whether the activity has sent all of its events.
    is_told: bool,
}

/// A call that has sent an event.
#[derive(Clone, Copy, Debug)]
struct Call {
    sender: u64,
    begun: u64,
    ended: u64,
}

/// Returns whether no node can run an instance for a while: the workload judges that it ends.
pub(crate) fn is_early(instance: &str) -> bool {
    instance.starts_with(LATER)
}

/// Returns whether an instance has many messages, which wait for one another.
pub(crate) fn has_backlog(instance: &str) -> bool {
    [GATHER, LATER, BROOD]
        .iter()
        .any(|name| instance.starts_with(name))
}

/// Adds the orchestrations of a node with so many deployments.
pub(crate) fn register(
    builder: OrchestrationRegistryBuilder,
    deployed: u32,
) -> OrchestrationRegistryBuilder {
    let builder = builder.register(GATHER, gather).register(BROOD, brood);
    let later = (1..=deployed).map(|number| format!("{LATER}{number}"));
    later.fold(builder, |builder, name| builder.register(name, gather))
}

/// Consumes this many events in each execution. The input has them and those of former executions.
async fn gather(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let (each, taken) = input.split_once('|').ok_or("no events")?;
    let mut taken = taken.to_owned();
    for _ in 0..each.parse().unwrap_or(1) {
        let event = ctx.dequeue_event(QUEUE).await;
        if event == LAST {
            return Ok(taken);
        }
        taken = format!("{taken},{event}");
    }
    ctx.continue_as_new(format!("{each}|{taken}")).await
}

/// Starts a child while an activity sends it events. The child is detached if it is `-detached`.
async fn brood(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let child = input.split(' ').next().unwrap_or_default();
    if child.ends_with("-detached") {
        ctx.schedule_orchestration(GATHER, child, "10|");
        return ctx.schedule_activity(TELL, &*input).await;
    }
    let gathered = ctx.schedule_sub_orchestration_with_id(GATHER, child, "10|");
    let told = ctx.schedule_activity(TELL, &*input);
    let (gathered, told) = ctx.join2(gathered, told).await;
    told?;
    gathered
}

impl Sent {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Events>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the activity that sends events.
    pub(crate) fn activity(&self) -> ActivityRegistry {
        let sent = self.clone();
        let tell = move |ctx: ActivityContext, input: String| {
            let sent = sent.clone();
            async move {
                let (instance, count) = input.split_once(' ').ok_or("no events")?;
                let client = ctx.get_client();
                let run = sent.lock().entry(instance.to_owned()).or_default().step();
                for _ in 0..count.parse().unwrap_or(1) {
                    sent.send(&client, instance, run).await?;
                }
                sent.lock().entry(instance.to_owned()).or_default().is_told = true;
                Ok(String::new())
            }
        };
        ActivityRegistry::builder().register(TELL, tell).build()
    }

    /// Sends an event. Every call sends another one, so a repeated call does not send one twice.
    async fn send(&self, client: &Client, instance: &str, sender: u64) -> Result<(), String> {
        let call = || async {
            let begun = self.lock().entry(instance.to_owned()).or_default().step();
            let event = format!("{sender}-{begun}");
            client.enqueue_event(instance, QUEUE, &*event).await?;
            let mut sent = self.lock();
            let events = sent.entry(instance.to_owned()).or_default();
            let ended = events.step();
            let call = Call {
                sender,
                begun,
                ended,
            };
            events.accepted.insert(event, call);
            Ok::<_, duroxide::ClientError>(())
        };
        keep_trying(call).await
    }

    async fn until_told(&self, instance: &str) -> bool {
        let deadline = Instant::now() + BOUND;
        while Instant::now() < deadline {
            if self
                .lock()
                .get(instance)
                .is_some_and(|events| events.is_told)
            {
                return true;
            }
            sleep(Duration::from_secs(1)).await;
        }
        false
    }

    /// Returns the events that an instance has been sent so far.
    fn until_now(&self, instance: &str) -> Events {
        self.lock().get(instance).cloned().unwrap_or_default()
    }

    fn forget(&self, instance: &str) {
        self.lock().remove(instance);
    }
}

impl Events {
    fn step(&mut self) -> u64 {
        self.steps += 1;
        self.steps
    }

    /// Returns events that are consumed although an event that was sent after them is consumed before.
    fn late<'a>(&self, consumed: &[&'a str]) -> Vec<&'a str> {
        let mut newest = BTreeMap::new();
        let calls = consumed
            .iter()
            .filter_map(|&event| Some((event, self.accepted.get(event)?)));
        let late = calls.filter(|(_, call)| {
            let newest = newest.entry(call.sender).or_insert(0);
            *newest = call.begun.max(*newest);
            *newest > call.ended
        });
        late.map(|(event, _)| event).collect()
    }

    /// Compares the events with the output of their instance.
    fn judge(&self, instance: &str, output: Option<&str>) -> Option<String> {
        let Some(output) = output else {
            return Some(format!("{instance}: it has not ended"));
        };
        let consumed: Vec<&str> = output
            .split(',')
            .filter(|event| !event.is_empty())
            .collect();
        let unique: BTreeSet<&str> = consumed.iter().copied().collect();
        let lost = self.accepted.keys().map(String::as_str);
        let lost: Vec<&str> = lost.filter(|event| !unique.contains(event)).collect();
        let doubled = consumed.len() - unique.len();
        let late = self.late(&consumed);
        let is_good = lost.is_empty() && doubled == 0 && late.is_empty();
        (!is_good).then(|| {
            let (accepted, count) = (self.accepted.len(), lost.len());
            let sample = &lost[..count.min(10)];
            let late = &late[..late.len().min(10)];
            format!(
                "{instance}: of {accepted} accepted events {count} are lost, such as {sample:?}, {doubled} \
                 are consumed twice, and these come after later ones of their sender: {late:?}"
            )
        })
    }
}

impl Caller {
    /// Runs the parts of the workload.
    pub(crate) async fn conserved(&self, seed: u64, longest: Duration, until: Instant) -> Seen {
        let longest = longest.max(Duration::from_secs(60)) * 4;
        let (broods, floods, early) = tokio::join!(
            Box::pin(self.broods(seed, longest / 4, until)),
            Box::pin(self.floods(seed, longest, until)),
            Box::pin(self.early(seed, longest, until)),
        );
        let mut all = Seen::default();
        for part in [broods, floods, early] {
            all.others += part.others;
            all.problems.extend(part.problems);
        }
        all
    }

    /// Sends the last event to an instance, and judges its output.
    async fn judge_gathered(&self, instance: &str, is_told: bool) -> Option<String> {
        if !is_told {
            return Some(format!("{instance}: not all events are sent"));
        }
        // A second run of the activity may send more, which come after the last event.
        let events = self.sent.until_now(instance);
        sleep(CLOCKS).await;
        let last = || self.client.enqueue_event(instance, QUEUE, LAST);
        if let Err(error) = keep_trying(last).await {
            return Some(format!(
                "{instance}: the last event is not accepted: {error}"
            ));
        }
        let output = self.end(instance, Duration::ZERO).await;
        self.sent.forget(instance);
        events.judge(instance, output.as_deref())
    }

    /// Starts parents whose children get events beside their start, also from this client.
    async fn broods(&self, seed: u64, longest: Duration, until: Instant) -> Seen {
        let mut random = Random::new(seed, "broods");
        let (mut work, mut following) = (Seen::default(), JoinSet::new());
        while Instant::now() < until {
            let parent = format!("{BROOD}-{}", work.others);
            let kind = ["child", "detached"][random.below(2)];
            let child = format!("{parent}-{kind}");
            let count = [1, 3, 70][random.below(3)];
            work.start(self, &parent, BROOD, &format!("{child} {count}"))
                .await;
            let caller = self.clone();
            following.spawn(async move {
                let own = (0..3).map(|_| caller.sent.send(&caller.client, &child, CALLER));
                let own = join_all(own).await;
                if let Some(error) = own.into_iter().find_map(Result::err) {
                    return Some(format!("{child}: an event is not accepted: {error}"));
                }
                let is_told = caller.sent.until_told(&child).await;
                let problem = caller.judge_gathered(&child, is_told).await;
                let ended = caller.end(&parent, Duration::ZERO).await;
                problem.or_else(|| {
                    ended
                        .is_none()
                        .then(|| format!("{parent}: it has not ended"))
                })
            });
            let pause = random.duration(Duration::from_secs(1)..longest);
            sleep_until(until.min(Instant::now() + pause)).await;
        }
        work.gather(following).await
    }

    /// Sends many events to instances that continue as new, some of which are paused then.
    async fn floods(&self, seed: u64, longest: Duration, until: Instant) -> Seen {
        let mut random = Random::new(seed, "floods");
        let (mut work, mut following) = (Seen::default(), JoinSet::new());
        while Instant::now() < until {
            let name = format!("{GATHER}-{}", work.others);
            let (each, count) = [(1, 150), (7, 300), (20, 1000), (50, 2000)][random.below(4)];
            work.start(self, &name, GATHER, &format!("{each}|")).await;
            let is_paused = random.chance(50);
            let held = random.duration(Duration::from_secs(1)..Duration::from_secs(120));
            let caller = self.clone();
            following.spawn(async move {
                let (flood, pause) = tokio::join!(
                    caller.flood(&name, count),
                    caller.hold_for(&name, is_paused.then_some(held)),
                );
                match flood.and(pause) {
                    Err(error) => Some(format!("{name}: {error}")),
                    Ok(()) => caller.judge_gathered(&name, true).await,
                }
            });
            let pause = random.duration(Duration::from_secs(1)..longest);
            sleep_until(until.min(Instant::now() + pause)).await;
        }
        work.gather(following).await
    }

    async fn flood(&self, instance: &str, count: usize) -> Result<(), String> {
        for _ in 0..count {
            self.sent.send(&self.client, instance, CALLER).await?;
        }
        Ok(())
    }

    /// Pauses an instance for a time.
    async fn hold_for(&self, instance: &str, time: Option<Duration>) -> Result<(), String> {
        let Some(time) = time else { return Ok(()) };
        sleep(Duration::from_secs(1)).await;
        let paused = self
            .provider
            .pause(instance, TreeScope::Alone, "a simulation")
            .await;
        match paused {
            // It has not begun.
            Err(error) if !error.is_retryable() => return Ok(()),
            // After another error it may be paused.
            _ => sleep(time).await,
        }
        let resume = || self.provider.resume(instance, TreeScope::Alone);
        let resumed = keep_trying(resume).await;
        resumed
            .map(drop)
            .map_err(|error| format!("it cannot be resumed: {error}"))
    }

    /// Starts orchestrations that no node knows, sends them events, and deploys them.
    async fn early(&self, seed: u64, longest: Duration, until: Instant) -> Seen {
        let mut random = Random::new(seed, "early");
        let mut work = Seen::default();
        for number in 1_u32.. {
            let pause = random.duration(Duration::from_secs(1)..longest);
            sleep_until(until.min(Instant::now() + pause)).await;
            if Instant::now() >= until {
                break;
            }
            let orchestration = format!("{LATER}{number}");
            let mut started = Vec::new();
            for events in [0, 5, 64, 300] {
                let name = format!("{orchestration}-{events}");
                work.start(self, &name, &orchestration, "20|").await;
                if let Err(error) = self.flood(&name, events).await {
                    work.problems.push(format!("{name}: {error}"));
                }
                started.push(name);
            }
            sleep(random.duration(Duration::ZERO..DEPLOYED)).await;
            self.cluster.deploy().await;
            let judged = started.iter().map(|name| self.judge_gathered(name, true));
            work.problems
                .extend(join_all(judged).await.into_iter().flatten());
        }
        work
    }
}

impl Seen {
    /// Waits for tasks, and adds their problems.
    async fn gather(mut self, mut following: JoinSet<Option<String>>) -> Self {
        while let Some(one) = following.join_next().await {
            self.problems.extend(one.expect("a client does not panic"));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::{Call, Events};

    fn events(calls: [(&str, u64, u64, u64); 3]) -> Events {
        let calls = calls.map(|(event, sender, begun, ended)| {
            let call = Call {
                sender,
                begun,
                ended,
            };
            (event.to_owned(), call)
        });
        Events {
            accepted: calls.into(),
            ..Events::default()
        }
    }

    #[test]
    fn an_event_after_a_later_one_of_its_sender_is_late() {
        let events = events([("a", 0, 1, 2), ("b", 0, 3, 4), ("c", 0, 5, 6)]);
        assert!(events.late(&["a", "b", "c"]).is_empty());
        assert_eq!(events.late(&["c", "a", "b"]), ["a", "b"]);
    }

    #[test]
    fn events_of_concurrent_calls_and_of_two_senders_have_no_order() {
        let events = events([("a", 0, 1, 4), ("b", 0, 2, 3), ("c", 1, 5, 6)]);
        assert!(events.late(&["c", "b", "a"]).is_empty());
    }
}
