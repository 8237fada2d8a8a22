//! Conservation: every queued event that a call has accepted is consumed once, in the order of its
//! sender's calls. Events are sent beside the start of a child, for orchestrations that no node
//! knows yet, to instances that continue as new with thousands of them, and to paused ones.

use std::collections::{BTreeMap, BTreeSet};

use cdb_provider::TreeScope;
use duroxide::Client;
use futures::future::join_all;

use crate::workload::prelude::*;

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
pub(super) struct Conserved(Guarded<BTreeMap<String, Events>>);

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

#[async_trait(?Send)]
impl Workload for Conserved {
    fn about(&self) -> About {
        About::always("conserved", "Queued events, each of which is consumed once")
    }

    fn activities(&self, all: Activities, _: &StartingNode<'_>) -> Activities {
        let sent = self.clone();
        let tell = move |ctx: ActivityContext, input: String| {
            let sent = sent.clone();
            async move { sent.tell(&ctx.get_client(), &input).await }
        };
        all.register(TELL, tell)
    }

    fn orchestrations(&self, all: Orchestrations, deployed: u32) -> Orchestrations {
        let all = all.register(GATHER, gather).register(BROOD, brood);
        let later = (1..=deployed).map(|number| format!("{LATER}{number}"));
        later.fold(all, |all, name| all.register(name, gather))
    }

    /// No node can run a later one for a while.
    fn explains_wait(&self, instance: &str, _: &Durable) -> bool {
        instance.starts_with(LATER)
    }

    fn has_backlog(&self, instance: &str) -> bool {
        let names = [GATHER, LATER, BROOD];
        names.iter().any(|name| instance.starts_with(name))
    }

    async fn run(&self, caller: &Caller) -> Seen {
        let wave = caller.cluster.profile.wave.max(Duration::from_secs(60));
        let (broods, floods, early) = tokio::join!(
            Box::pin(self.broods(caller, wave)),
            Box::pin(self.floods(caller, wave * 4)),
            Box::pin(self.early(caller, wave * 4)),
        );
        [broods, floods, early].into_iter().collect()
    }
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

impl Conserved {
    /// Sends a number of events, as the activity.
    async fn tell(&self, client: &Client, input: &str) -> Result<String, String> {
        let (instance, count) = input.split_once(' ').ok_or("no events")?;
        let run = self.of(instance, Events::step);
        for _ in 0..count.parse().unwrap_or(1) {
            self.send(client, instance, run).await?;
        }
        self.of(instance, |events| events.is_told = true);
        Ok(String::new())
    }

    /// Returns what `look` finds in the events of an instance.
    fn of<T>(&self, instance: &str, look: impl FnOnce(&mut Events) -> T) -> T {
        look(self.0.lock().entry(instance.to_owned()).or_default())
    }

    /// Sends an event. Every call sends another one, so a repeated call does not send one twice.
    async fn send(&self, client: &Client, instance: &str, sender: u64) -> Result<(), String> {
        let call = || async {
            let begun = self.of(instance, Events::step);
            let event = format!("{sender}-{begun}");
            client.enqueue_event(instance, QUEUE, &*event).await?;
            self.of(instance, |events| {
                let ended = events.step();
                let call = Call {
                    sender,
                    begun,
                    ended,
                };
                events.accepted.insert(event, call);
            });
            Ok::<_, duroxide::ClientError>(())
        };
        keep_trying(call).await
    }

    async fn until_told(&self, instance: &str) -> bool {
        let deadline = Instant::now() + BOUND;
        while Instant::now() < deadline {
            if self.of(instance, |events| events.is_told) {
                return true;
            }
            sleep(Duration::from_secs(1)).await;
        }
        false
    }

    /// Sends the last event to an instance, and judges its output.
    async fn judge(&self, caller: &Caller, instance: &str) -> Option<String> {
        // A second run of the activity may send more, which come after the last event.
        let events = self.of(instance, |events| events.clone());
        sleep(CLOCKS).await;
        let last = || caller.client.enqueue_event(instance, QUEUE, LAST);
        if let Err(error) = keep_trying(last).await {
            return Some(format!(
                "{instance}: the last event is not accepted: {error}"
            ));
        }
        let output = caller.end(instance).await;
        self.0.lock().remove(instance);
        events.judge(instance, output.as_deref())
    }

    /// Starts parents whose children get events beside their start, also from this client.
    async fn broods(&self, caller: &Caller, longest: Duration) -> Seen {
        let mut random = Random::new(caller.seed, "broods");
        let (mut work, mut following) = (Seen::default(), JoinSet::new());
        while caller.goes_on() {
            let parent = format!("{BROOD}-{}", work.others);
            let kind = ["child", "detached"][random.below(2)];
            let child = format!("{parent}-{kind}");
            let count = [1, 3, 70][random.below(3)];
            work.start(caller, &parent, BROOD, &format!("{child} {count}"))
                .await;
            let (sent, one) = (self.clone(), caller.clone());
            following.spawn(async move {
                let own = (0..3).map(|_| sent.send(&one.client, &child, CALLER));
                let own = join_all(own).await;
                if let Some(error) = own.into_iter().find_map(Result::err) {
                    return Some(format!("{child}: an event is not accepted: {error}"));
                }
                let problem = if sent.until_told(&child).await {
                    sent.judge(&one, &child).await
                } else {
                    Some(format!("{child}: not all events are sent"))
                };
                let ended = one.end(&parent).await;
                problem.or_else(|| {
                    ended
                        .is_none()
                        .then(|| format!("{parent}: it has not ended"))
                })
            });
            caller.rest(&mut random, SECOND..longest).await;
        }
        work.gather(following).await
    }

    /// Sends many events to instances that continue as new, some of which are paused then.
    async fn floods(&self, caller: &Caller, longest: Duration) -> Seen {
        let mut random = Random::new(caller.seed, "floods");
        let (mut work, mut following) = (Seen::default(), JoinSet::new());
        while caller.goes_on() {
            let name = format!("{GATHER}-{}", work.others);
            let (each, count) = [(1, 150), (7, 300), (20, 1000), (50, 2000)][random.below(4)];
            work.start(caller, &name, GATHER, &format!("{each}|")).await;
            let is_paused = random.chance(50);
            let held = random.duration(SECOND..Duration::from_secs(120));
            let (sent, one) = (self.clone(), caller.clone());
            following.spawn(async move {
                let (flood, pause) = tokio::join!(
                    sent.flood(&one, &name, count),
                    hold_for(&one, &name, is_paused.then_some(held)),
                );
                match flood.and(pause) {
                    Err(error) => Some(format!("{name}: {error}")),
                    Ok(()) => sent.judge(&one, &name).await,
                }
            });
            caller.rest(&mut random, SECOND..longest).await;
        }
        work.gather(following).await
    }

    async fn flood(&self, caller: &Caller, instance: &str, count: usize) -> Result<(), String> {
        for _ in 0..count {
            self.send(&caller.client, instance, CALLER).await?;
        }
        Ok(())
    }

    /// Starts orchestrations that no node knows, sends them events, and deploys them.
    async fn early(&self, caller: &Caller, longest: Duration) -> Seen {
        let mut random = Random::new(caller.seed, "early");
        let mut work = Seen::default();
        for number in 1_u32.. {
            caller.rest(&mut random, SECOND..longest).await;
            if !caller.goes_on() {
                break;
            }
            let orchestration = format!("{LATER}{number}");
            let mut started = Vec::new();
            for events in [0, 5, 64, 300] {
                let name = format!("{orchestration}-{events}");
                work.start(caller, &name, &orchestration, "20|").await;
                if let Err(error) = self.flood(caller, &name, events).await {
                    work.problems.push(format!("{name}: {error}"));
                }
                started.push(name);
            }
            sleep(random.duration(Duration::ZERO..DEPLOYED)).await;
            caller.cluster.deploy().await;
            let judged = started.iter().map(|name| self.judge(caller, name));
            work.problems
                .extend(join_all(judged).await.into_iter().flatten());
        }
        work
    }
}

/// Pauses an instance for a time.
async fn hold_for(caller: &Caller, instance: &str, time: Option<Duration>) -> Result<(), String> {
    let Some(time) = time else { return Ok(()) };
    sleep(Duration::from_secs(1)).await;
    let paused = caller
        .provider
        .pause(instance, TreeScope::Alone, "a simulation")
        .await;
    match paused {
        // It has not begun.
        Err(error) if !error.is_retryable() => return Ok(()),
        // After another error it may be paused.
        _ => sleep(time).await,
    }
    let resume = || caller.provider.resume(instance, TreeScope::Alone);
    let resumed = keep_trying(resume).await;
    resumed
        .map(drop)
        .map_err(|error| format!("it cannot be resumed: {error}"))
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
