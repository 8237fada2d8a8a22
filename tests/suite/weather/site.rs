//! Runtimes with default settings on eight physical partitions, and the times of what their instances do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_emulator::Emulator;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use cdb_tests::Backend;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};
use tokio::time::{Instant, sleep};

use super::network::Rules;
use crate::partitions::instances;

pub(super) const PARTITIONS: u32 = 8;

/// The time of each step of each instance, when it was first reached.
#[derive(Clone, Default)]
pub(super) struct Seen(Arc<Mutex<BTreeMap<(String, &'static str), Instant>>>);

impl Seen {
    fn mark(&self, instance: &str, step: &'static str) {
        let mut seen = self.0.lock().expect("no test has panicked");
        seen.entry((instance.to_owned(), step))
            .or_insert_with(Instant::now);
    }

    pub(super) fn at(&self, instance: &str, step: &'static str) -> Option<Instant> {
        let seen = self.0.lock().expect("no test has panicked");
        seen.get(&(instance.to_owned(), step)).copied()
    }

    fn orchestrations(&self) -> OrchestrationRegistry {
        let (steps, leaf, busy) = (self.clone(), self.clone(), self.clone());
        OrchestrationRegistry::builder()
            .register("Steps", move |ctx: OrchestrationContext, child: String| {
                let seen = steps.clone();
                async move {
                    let id = ctx.instance_id();
                    seen.mark(&id, "begun");
                    ctx.schedule_activity("Mark", "").await?;
                    seen.mark(&id, "result");
                    ctx.schedule_timer(Duration::from_secs(1)).await;
                    seen.mark(&id, "timer");
                    ctx.schedule_sub_orchestration_with_id("Leaf", child, "")
                        .await?;
                    seen.mark(&id, "child");
                    ctx.dequeue_event("Orders").await;
                    seen.mark(&id, "event");
                    Ok("done".to_owned())
                }
            })
            .register("Leaf", move |ctx: OrchestrationContext, _: String| {
                leaf.mark(&ctx.instance_id(), "begun");
                async { Ok(String::new()) }
            })
            .register("Busy", move |ctx: OrchestrationContext, rounds: String| {
                let seen = busy.clone();
                async move {
                    let id = ctx.instance_id();
                    seen.mark(&id, "begun");
                    let rounds: u32 = rounds.parse().expect("a number");
                    for _ in 0..rounds {
                        let first = ctx.schedule_activity("Work", "");
                        let second = ctx.schedule_activity("Work", "");
                        first.await?;
                        second.await?;
                        ctx.schedule_timer(Duration::from_millis(200)).await;
                    }
                    seen.mark(&id, "ended");
                    Ok("done".to_owned())
                }
            })
            .build()
    }

    fn activities(&self) -> ActivityRegistry {
        let seen = self.clone();
        ActivityRegistry::builder()
            .register("Mark", move |ctx: ActivityContext, _: String| {
                seen.mark(ctx.instance_id(), "activity");
                async { Ok(String::new()) }
            })
            .register("Work", async |_: ActivityContext, _: String| {
                sleep(Duration::from_millis(50)).await;
                Ok(String::new())
            })
            .build()
    }
}

/// With the intervals of the defaults, which tests otherwise shorten.
pub(super) fn defaults(config: &mut CosmosDBProviderConfig) {
    let defaults = CosmosDBProviderConfig::default();
    config.reconciler_interval = defaults.reconciler_interval;
    config.reconciler_age_threshold = defaults.reconciler_age_threshold;
}

pub(super) struct Site {
    pub(super) backend: Backend,
    pub(super) client: Client,
    pub(super) provider: CosmosDBProvider,
    pub(super) runtimes: Vec<Arc<Runtime>>,
    pub(super) rules: Rules,
    pub(super) seen: Seen,
    pub(super) all: Vec<(String, String)>,
}

impl Site {
    /// `None` on an account.
    pub(super) async fn open(
        runtimes: usize,
        concurrency: (usize, usize),
        seed: u64,
    ) -> Option<Self> {
        let backend = Backend::start_simulated_on(PARTITIONS).await?;
        let emulator = backend.emulator().expect("not on an account");
        emulator
            .change(|settings| settings.seed(seed))
            .expect("it has a seed");
        let provider = backend.provider_with(defaults).await;
        let all = instances(&provider, 500).await;
        let mut site = Self {
            client: Client::new(Arc::new(provider.clone())),
            provider,
            backend,
            runtimes: Vec::new(),
            rules: Rules::seeded(seed),
            seen: Seen::default(),
            all,
        };
        for _ in 0..runtimes {
            site.join(concurrency).await;
        }
        Some(site)
    }

    pub(super) async fn join(&mut self, (turns, activities): (usize, usize)) {
        let provider = self.rules.provider(&self.backend, defaults).await;
        let options = RuntimeOptions {
            orchestration_concurrency: turns,
            worker_concurrency: activities,
            ..RuntimeOptions::default()
        };
        let runtime = Runtime::start_with_options(
            Arc::new(provider),
            self.seen.activities(),
            self.seen.orchestrations(),
            options,
        );
        self.runtimes.push(runtime.await);
    }

    pub(super) fn emulator(&self) -> &Emulator {
        self.backend.emulator().expect("not on an account")
    }

    pub(super) fn within(&self, sick: &[&str]) -> Vec<String> {
        let found = self.all.iter().filter(|(_, at)| sick.contains(&&**at));
        found.map(|(instance, _)| instance.clone()).collect()
    }

    pub(super) fn outside(&self, sick: &[&str]) -> Vec<String> {
        let found = self.all.iter().filter(|(_, at)| !sick.contains(&&**at));
        found.map(|(instance, _)| instance.clone()).collect()
    }

    pub(super) async fn start(&self, instance: &str, orchestration: &str, input: &str) {
        let started = self
            .client
            .start_orchestration(instance, orchestration, input);
        started.await.expect("it is started");
    }

    /// Starts an instance and a child elsewhere every half second, and queues an event for each when it
    /// waits for it. Returns the longest time of each step.
    pub(super) async fn probe(
        &self,
        sound: &[String],
        count: usize,
    ) -> BTreeMap<&'static str, Duration> {
        let mut running = Vec::new();
        for pair in sound.chunks(2).take(count) {
            running.push(self.probe_one(&pair[0], &pair[1], running.len()));
        }
        let mut longest = BTreeMap::new();
        for steps in futures::future::join_all(running).await {
            for (step, took) in steps {
                let most = longest.entry(step).or_insert(Duration::ZERO);
                *most = took.max(*most);
            }
        }
        longest
    }

    async fn probe_one(
        &self,
        instance: &str,
        child: &str,
        number: usize,
    ) -> Vec<(&'static str, Duration)> {
        sleep(Duration::from_millis(500) * u32::try_from(number).expect("few")).await;
        let begun = Instant::now();
        self.start(instance, "Steps", child).await;
        let steps = [
            (instance, "begun", Duration::ZERO),
            (instance, "activity", Duration::ZERO),
            (instance, "result", Duration::ZERO),
            (instance, "timer", Duration::from_secs(1)),
            (child, "begun", Duration::ZERO),
            (instance, "child", Duration::ZERO),
        ];
        let names = [
            "first turn",
            "activity",
            "result",
            "timer",
            "first turn of child",
            "child",
        ];
        let mut took = Vec::new();
        let mut last = begun;
        for ((of, step, least), name) in steps.into_iter().zip(names) {
            let at = self.reached(of, step, begun).await;
            took.push((name, at.saturating_duration_since(last + least)));
            last = at;
        }
        let sent = Instant::now();
        ok!(self.client.enqueue_event(instance, "Orders", "x"));
        let at = self.reached(instance, "event", begun).await;
        took.push(("event", at - sent));
        took
    }

    async fn reached(&self, instance: &str, step: &'static str, begun: Instant) -> Instant {
        loop {
            if let Some(at) = self.seen.at(instance, step) {
                return at;
            }
            if begun.elapsed() > Duration::from_secs(60) {
                return Instant::now();
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    pub(super) async fn completed(&self, instances: &[String]) -> usize {
        let mut completed = 0;
        for instance in instances {
            let status = self.client.get_orchestration_status(instance).await;
            match status.expect("it is read") {
                OrchestrationStatus::Completed { .. } => completed += 1,
                OrchestrationStatus::Failed { details, .. } => panic!("{instance}: {details:?}"),
                _ => {}
            }
        }
        completed
    }

    /// Waits until all these instances have completed. Returns the time.
    pub(super) async fn until_completed(
        &self,
        instances: &[String],
        limit: Duration,
    ) -> Option<Duration> {
        let begun = Instant::now();
        let mut left = instances.to_vec();
        while begun.elapsed() < limit {
            let mut open = Vec::new();
            for instance in left {
                if self.completed(std::slice::from_ref(&instance)).await == 0 {
                    open.push(instance);
                }
            }
            if open.is_empty() {
                return Some(begun.elapsed());
            }
            left = open;
            sleep(Duration::from_millis(200)).await;
        }
        println!("  not completed: {}", left.len());
        None
    }

    pub(super) async fn close(self) {
        for runtime in self.runtimes {
            runtime.shutdown(None).await;
        }
        self.backend.stop().await;
    }
}
