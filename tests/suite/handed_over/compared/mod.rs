//! Runs with hand-overs compared with runs that store every message first.

mod deaths;
mod lives;
mod runtimes;
mod shares;
mod slow;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_provider::documents::{Priority, Rule};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig, HandOver, TreeScope};
use cdb_tests::Backend;
use duroxide::providers::{
    ExecutionMetadata, OrchestrationItem, Provider, ProviderError, SessionFetchConfig, TagFilter,
    WorkItem,
};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Client, Either2, Event, EventKind, OrchestrationContext,
    OrchestrationRegistry, OrchestrationStatus,
};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::stage::{INSTANCE, LOCK, MOMENT, Stage, begin, commit_turn, received};
use crate::fair_work::{rule, set};
use crate::harness::next_turn;
use crate::network::{ANY, BATCH, CREATE, Network, READ};
use crate::several::{ack, enqueue, event};
use crate::work_items::{activity_of, completion_of, metadata_of, start_of, started};

const SECOND: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_secs(5);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What dispatchers and workers did.
#[derive(Debug, Default)]
struct Tally {
    acks: Vec<Duration>,
    failed_acks: usize,
    turns: usize,
    lost_turns: usize,
    longest_commit: Duration,
    runs: BTreeMap<(String, u64), u32>,
    accepted: BTreeSet<(String, u64)>,
    repeated: Vec<(String, u64)>,
    completed: BTreeMap<String, u64>,
    begun: BTreeMap<String, Instant>,
    ended: BTreeMap<String, Instant>,
    starts: Vec<Duration>,
}

type Shared = Arc<Mutex<Tally>>;

/// The label, the width and the depth in the id of an instance, `label-width-depth-number`.
fn shape(instance: &str) -> (String, u64, u64) {
    let parts: Vec<_> = instance.split('-').collect();
    let number = |at: usize| parts[at].parse().expect("a number");
    (parts[0].to_owned(), number(1), number(2))
}

fn work_of(instance: &str, id: u64) -> WorkItem {
    let (label, ..) = shape(instance);
    let session = (label == "sess").then_some(instance);
    let mut item = activity_of(instance, id, session);
    if let WorkItem::ActivityExecute { tag, .. } = &mut item
        && label != "sess"
        && label != "plain"
    {
        *tag = Some(label);
    }
    item
}

struct Step {
    events: Vec<Event>,
    work: Vec<WorkItem>,
    completed: u64,
    is_over: bool,
}

fn step_of(item: &OrchestrationItem) -> Step {
    let (label, width, depth) = shape(&item.instance);
    let total = width * depth;
    let instance = item.instance.clone();
    let mut next = item.history.iter().map(Event::event_id).max().unwrap_or(0);
    let (mut events, mut work) = (Vec::new(), Vec::new());
    let is_scheduled = |event: &&Event| matches!(event.kind, EventKind::ActivityScheduled { .. });
    let scheduled = item.history.iter().filter(is_scheduled).count() as u64;
    let is_done = |event: &&Event| matches!(event.kind, EventKind::ActivityCompleted { .. });
    let before = item.history.iter().filter(is_done).count() as u64;
    let mut add = |source: Option<u64>, kind: EventKind| {
        next += 1;
        events.push(Event::with_event_id(
            next,
            instance.clone(),
            1,
            source,
            kind,
        ));
        next
    };
    let mut more = 0;
    if item.history.is_empty() {
        add(None, started("Wait", ""));
        more = width;
    }
    let mut completed = 0;
    for message in &item.messages {
        if let WorkItem::ActivityCompleted { id, result, .. } = message {
            let result = result.clone();
            add(Some(*id), EventKind::ActivityCompleted { result });
            completed += 1;
            more += 1;
        }
    }
    for _ in 0..more.min(total - scheduled) {
        let session = (label == "sess").then(|| item.instance.clone());
        let kind = EventKind::ActivityScheduled {
            name: "Work".to_owned(),
            input: String::new(),
            session_id: session,
            tag: None,
        };
        let id = add(None, kind);
        work.push(work_of(&item.instance, id));
    }
    Step {
        events,
        work,
        completed,
        is_over: before + completed >= total,
    }
}

async fn dispatch(provider: CosmosDBProvider, code: Duration, tally: Shared) {
    loop {
        let fetched = provider.fetch_orchestration_item(LOCK, POLL, None).await;
        let Ok(Some((item, token, _))) = fetched else {
            sleep(MOMENT).await;
            continue;
        };
        sleep(code).await;
        let step = step_of(&item);
        let metadata = ExecutionMetadata {
            status: step.is_over.then(|| "Completed".to_owned()),
            output: step.is_over.then(String::new),
            ..metadata_of("Wait")
        };
        let begun = Instant::now();
        let (events, work) = (step.events, step.work);
        let committed = provider
            .ack_orchestration_item(&token, 1, events, work, vec![], metadata, vec![])
            .await;
        let mut tally = tally.lock().expect("no panic");
        tally.turns += 1;
        tally.longest_commit = tally.longest_commit.max(begun.elapsed());
        if committed.is_err() {
            tally.lost_turns += 1;
            continue;
        }
        *tally.completed.entry(item.instance.clone()).or_default() += step.completed;
        if step.is_over {
            tally.ended.insert(item.instance, Instant::now());
        }
    }
}

async fn work(provider: CosmosDBProvider, time: Duration, tally: Shared) {
    let session = SessionFetchConfig {
        owner_id: "owner".to_owned(),
        lock_timeout: LOCK,
    };
    loop {
        let fetched = provider.fetch_work_item(LOCK, POLL, Some(&session), &TagFilter::Any);
        let Ok(Some((item, token, _))) = fetched.await else {
            sleep(MOMENT).await;
            continue;
        };
        let WorkItem::ActivityExecute { instance, id, .. } = item else {
            continue;
        };
        let key = (instance.clone(), id);
        {
            let mut tally = tally.lock().expect("no panic");
            *tally.runs.entry(key.clone()).or_default() += 1;
            if tally.accepted.contains(&key) {
                tally.repeated.push(key.clone());
            }
        }
        sleep(time).await;
        let begun = Instant::now();
        let done = completion_of(&instance, id, "done");
        let acknowledged = provider.ack_work_item(&token, Some(done)).await;
        let mut tally = tally.lock().expect("no panic");
        tally.acks.push(begun.elapsed());
        if acknowledged.is_ok() {
            tally.accepted.insert(key);
        } else {
            tally.failed_acks += 1;
        }
    }
}

/// A process with dispatchers and workers.
struct Site {
    provider: CosmosDBProvider,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Clone, Debug)]
struct Size {
    workers: usize,
    dispatchers: usize,
    activity: Duration,
    code: Duration,
    latency: Duration,
    cache: Option<u64>,
}

impl Size {
    fn new(workers: usize, activity: u64, code: u64, latency: u64) -> Self {
        Self {
            workers,
            dispatchers: 6,
            activity: ms(activity),
            code: ms(code),
            latency: ms(latency),
            cache: None,
        }
    }
}

/// Starts the dispatchers and workers of a process.
fn staff(provider: &CosmosDBProvider, size: &Size, tally: &Shared) -> Vec<JoinHandle<()>> {
    let dispatchers = (0..size.dispatchers)
        .map(|_| tokio::spawn(dispatch(provider.clone(), size.code, tally.clone())));
    let workers = (0..size.workers)
        .map(|_| tokio::spawn(work(provider.clone(), size.activity, tally.clone())));
    dispatchers.chain(workers).collect()
}

async fn site(backend: &Backend, policy: &HandOver, size: &Size, tally: &Shared) -> Site {
    let network = Network::default();
    let policy = policy.clone();
    let cache = size.cache;
    let provider = network.provider_with(backend, |config| {
        config.hand_over = policy;
        if let Some(cache) = cache {
            config.history_cache_bytes = cache;
        }
    });
    let provider = provider.await.expect("simulated");
    network.slow_down(ANY, size.latency);
    let tasks = staff(&provider, size, tally);
    Site { provider, tasks }
}

async fn start(provider: CosmosDBProvider, instance: String, tally: Shared) {
    let begun = Instant::now();
    {
        let mut tally = tally.lock().expect("no panic");
        tally.begun.insert(instance.clone(), begun);
    }
    let started = provider.enqueue_for_orchestrator(start_of(&instance, "Wait"), None);
    started.await.expect("it starts");
    tally.lock().expect("no panic").starts.push(begun.elapsed());
}

/// Waits until all these instances have ended.
async fn all_ended(tally: &Shared, instances: &[String], limit: Duration) -> bool {
    let begun = Instant::now();
    loop {
        let is_over = {
            let tally = tally.lock().expect("no panic");
            instances.iter().all(|it| tally.ended.contains_key(it))
        };
        if is_over {
            return true;
        }
        if begun.elapsed() > limit {
            return false;
        }
        sleep(ms(2)).await;
    }
}

impl Debug for Run {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.shown())
    }
}

struct Run {
    took: Duration,
    tally: Tally,
    requests: u64,
}

impl Run {
    /// The time of an instance from its start to its end.
    fn time_of(&self, instance: &str) -> Duration {
        self.tally.ended[instance] - self.tally.begun[instance]
    }

    fn mean_ack(&self) -> Duration {
        let all: Duration = self.tally.acks.iter().sum();
        all / u32::try_from(self.tally.acks.len().max(1)).expect("few")
    }

    fn longest_ack(&self) -> Duration {
        self.tally.acks.iter().copied().max().unwrap_or_default()
    }

    /// The times of those that do not start first.
    fn later(&self, case: &Case) -> Vec<Duration> {
        let later = case.instances.iter().filter(|(at, _)| *at > 0);
        later.map(|(_, it)| self.time_of(it)).collect()
    }

    fn mean(&self) -> Duration {
        let all: Duration = self.tally.ended.keys().map(|it| self.time_of(it)).sum();
        all / u32::try_from(self.tally.ended.len().max(1)).expect("few")
    }

    fn shown(&self) -> String {
        format!(
            "{:?}, ack {:?} max {:?}, mean instance {:?}, {} turns, {} lost, {} acks failed, {} requests",
            self.took,
            self.mean_ack(),
            self.longest_ack(),
            self.mean(),
            self.tally.turns,
            self.tally.lost_turns,
            self.tally.failed_acks,
            self.requests
        )
    }

    fn check(&self, what: &str) {
        let repeated = &self.tally.repeated;
        assert!(repeated.is_empty(), "{what}: {repeated:?}");
        for (instance, completed) in &self.tally.completed {
            let (_, width, depth) = shape(instance);
            assert_eq!(*completed, width * depth, "{what}: {instance}");
        }
    }
}

/// Instances, each started after a time, on some processes under some rules.
struct Case {
    what: String,
    sites: usize,
    size: Size,
    instances: Vec<(u64, String)>,
    rules: Vec<Rule>,
}

impl Case {
    fn new(what: impl Into<String>, size: Size, instances: Vec<(u64, String)>) -> Self {
        Self {
            what: what.into(),
            sites: 1,
            size,
            instances,
            rules: Vec::new(),
        }
    }

    fn on(self, sites: usize) -> Self {
        Self { sites, ..self }
    }

    fn under(self, rules: impl Into<Vec<Rule>>) -> Self {
        let rules = rules.into();
        Self { rules, ..self }
    }
}

async fn run(policy: HandOver, case: &Case) -> Option<Run> {
    let backend = Backend::start_in_simulated_time(|_| {}).await?;
    let emulator = backend.emulator().expect("simulated");
    let tally = Shared::default();
    let mut all = Vec::new();
    for _ in 0..case.sites {
        all.push(site(&backend, &policy, &case.size, &tally).await);
    }
    for rule in &case.rules {
        set(&all[0].provider, rule.clone()).await;
    }
    sleep(SECOND * 12).await;
    emulator.reset_requests();
    let begun = Instant::now();
    let starts = case.instances.iter().enumerate();
    let starts = starts.map(async |(number, (at, instance))| {
        sleep(ms(*at)).await;
        let provider = all[number % case.sites].provider.clone();
        start(provider, instance.clone(), tally.clone()).await;
    });
    let names: Vec<String> = case.instances.iter().map(|(_, it)| it.clone()).collect();
    futures::future::join_all(starts).await;
    let is_over = all_ended(&tally, &names, SECOND * 600).await;
    let took = begun.elapsed();
    let requests = emulator.requests().data_requests() as u64;
    for site in &all {
        site.tasks.iter().for_each(JoinHandle::abort);
    }
    sleep(MOMENT).await;
    let tally = std::mem::take(&mut *tally.lock().expect("no panic"));
    let missing = names.iter().filter(|it| !tally.ended.contains_key(*it));
    let missing: Vec<_> = missing.collect();
    assert!(is_over, "{policy:?}: {missing:?} have not ended");
    drop(all);
    backend.stop().await;
    Some(Run {
        took,
        tally,
        requests,
    })
}

/// Runs the case without and with hand-overs, and checks both runs. Requests of several processes at the same moment
/// arrive in the order of their threads, so which of two begins a turn that both want, and how often, is chance:
/// 0 to 10 turns of 150 were lost, with hand-overs and without.
async fn both(case: &Case) -> Option<(Run, Run)> {
    let (never, handed) = compared(async |policy| run(policy, case).await).await?;
    let what = format!("{}, {:?}", case.what, case.size);
    never.check(&what);
    handed.check(&what);
    let lost = (never.tally.lost_turns, handed.tally.lost_turns);
    let by_chance = if case.sites > 1 {
        handed.tally.turns / 10
    } else {
        0
    };
    assert!(lost.1 <= lost.0 + by_chance, "{what}: lost turns {lost:?}");
    Some((never, handed))
}

/// Runs something without and with hand-overs.
async fn compared<T: Debug>(run: impl AsyncFn(HandOver) -> Option<T>) -> Option<(T, T)> {
    let never = run(HandOver::Never).await?;
    let handed = run(HandOver::default()).await?;
    println!("   never: {never:?}\n   handed over: {handed:?}");
    Some((never, handed))
}

fn many(label: &str, width: u64, depth: u64, count: u64) -> Vec<(u64, String)> {
    let of = |number| (0, format!("{label}-{width}-{depth}-{number}"));
    (0..count).map(of).collect()
}

async fn networked(policy: HandOver, count: u64) -> Option<(Stage, Network)> {
    let backend = Backend::start_in_simulated_time(|config| {
        config.reconciler_interval = LOCK;
        config.payload_codec = None;
    })
    .await?;
    let network = Network::default();
    let change = |config: &mut CosmosDBProviderConfig| config.hand_over = policy;
    let provider = network.provider_with(&backend, change).await?;
    Some((Stage::on(backend, provider, count).await, network))
}

/// What no codec makes small.
fn noise(bytes: usize) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut text = String::with_capacity(bytes);
    while text.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text += &state.to_string();
    }
    text
}
