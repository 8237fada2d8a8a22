//! Limits of real runtimes that differ: in the tags that they take, the sessions that they hold, and in what happens
//! to them. Time is simulated.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cdb_provider::documents::{LimitedKey, Rule};
use cdb_provider::{CosmosDBProvider, InstanceLabel, TreeScope};
use cdb_tests::Backend;
use duroxide::providers::TagFilter;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use futures::future::join_all;
use tokio::time::{Instant, sleep};

use crate::fair_work::{rule, set};
use crate::network::{ANY, Network};

/// Within this time, every runtime knows a change of the limits.
const KNOWN: Duration = Duration::from_secs(12);

const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// One run of an activity.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) instance: String,
    pub(crate) tag: String,
    site: usize,
    pub(crate) started: Instant,
    ended: Option<Instant>,
}

#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<Run>>>);

/// Notes the end of a run, also if it is dropped.
struct Running(Log, usize);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.runs()[self.1].ended = Some(Instant::now());
    }
}

impl Log {
    fn runs(&self) -> MutexGuard<'_, Vec<Run>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, ctx: &ActivityContext, tag: &str, site: usize) -> Running {
        let mut runs = self.runs();
        runs.push(Run {
            instance: ctx.instance_id().to_owned(),
            tag: tag.to_owned(),
            site,
            started: Instant::now(),
            ended: None,
        });
        Running(self.clone(), runs.len() - 1)
    }

    pub(crate) fn of(&self, concerns: impl Fn(&Run) -> bool) -> Vec<Run> {
        self.runs()
            .iter()
            .filter(|run| concerns(run))
            .cloned()
            .collect()
    }

    /// The most that ran at a time.
    fn most(&self, concerns: impl Fn(&Run) -> bool) -> usize {
        let runs = self.of(concerns);
        let at = |at: Instant| {
            let is_running =
                |run: &&Run| run.started <= at && run.ended.is_none_or(|ended| ended > at);
            runs.iter().filter(is_running).count()
        };
        let starts = runs.iter().map(|run| at(run.started));
        starts.max().unwrap_or_default()
    }

    fn ended(&self, concerns: impl Fn(&Run) -> bool) -> usize {
        self.of(|run| run.ended.is_some() && concerns(run)).len()
    }

    fn activities(&self, site: usize) -> ActivityRegistry {
        let (work, call) = (self.clone(), self.clone());
        let run = move |log: Log| {
            move |ctx: ActivityContext, input: String| {
                let log = log.clone();
                async move {
                    let (tag, time) = input.split_once(' ').expect("a tag and a time");
                    let _running = log.start(&ctx, tag, site);
                    let time = time.parse().expect("a number");
                    tokio::select! {
                        () = sleep(millis(time)) => Ok(String::new()),
                        () = ctx.cancelled() => Err("cancelled".to_owned()),
                    }
                }
            }
        };
        ActivityRegistry::builder()
            .register("Work", run(work))
            .register("Call", run(call))
            .build()
    }
}

/// `Fan` runs activities side by side: their name, tag, count and time. `Session` runs two of a session, eight seconds
/// apart: the permit of the first one has returned by then.
fn orchestrations() -> OrchestrationRegistry {
    async fn fan(ctx: OrchestrationContext, input: String) -> Result<String, String> {
        let parts: Vec<_> = input.split(' ').collect();
        let [name, tag, count, time] = parts[..] else {
            panic!("{input}");
        };
        let all = (0..count.parse::<usize>().expect("a number")).map(|_| {
            let activity = ctx.schedule_activity(name, format!("{tag} {time}"));
            if tag == "none" {
                activity
            } else {
                activity.with_tag(tag)
            }
        });
        ctx.join(all.collect::<Vec<_>>()).await;
        Ok(String::new())
    }
    async fn session(ctx: OrchestrationContext, input: String) -> Result<String, String> {
        ctx.schedule_activity_on_session("Work", &*input, "session")
            .await?;
        ctx.schedule_timer(secs(8)).await;
        ctx.schedule_activity_on_session("Work", &*input, "session")
            .await
    }
    OrchestrationRegistry::builder()
        .register("Session", session)
        .register("Fan", fan)
        .build()
}

fn tenant() -> InstanceLabel {
    InstanceLabel::new("tenant", |id| Some(id.split_once(':')?.0.to_owned()))
}

pub(crate) struct Site {
    pub(crate) network: Network,
    pub(crate) provider: CosmosDBProvider,
    pub(crate) runtime: Arc<Runtime>,
}

pub(crate) struct Farm {
    backend: Backend,
    pub(crate) provider: CosmosDBProvider,
    client: Client,
    pub(crate) sites: Vec<Site>,
    pub(crate) log: Log,
}

impl Farm {
    pub(crate) async fn open(count: usize, workers: usize, rules: Vec<Rule>) -> Option<Self> {
        let backend = Backend::start_simulated_with(|config| config.labels = vec![tenant()]).await;
        Self::on(backend, count, workers, rules).await
    }

    async fn on(backend: Backend, count: usize, workers: usize, rules: Vec<Rule>) -> Option<Self> {
        backend.emulator()?;
        let provider = backend.provider().await;
        for rule in rules {
            set(&provider, rule).await;
        }
        let mut farm = Self {
            client: Client::new(Arc::new(provider.clone())),
            provider,
            backend,
            sites: Vec::new(),
            log: Log::default(),
        };
        for _ in 0..count {
            farm.join(workers, TagFilter::Any).await;
        }
        Some(farm)
    }

    pub(crate) async fn join(&mut self, workers: usize, filter: TagFilter) {
        let network = Network::default();
        let provider = network.provider(&self.backend).await.expect("simulated");
        let options = RuntimeOptions {
            worker_concurrency: workers,
            orchestration_concurrency: 2,
            worker_tag_filter: filter,
            ..RuntimeOptions::default()
        };
        let runtime = Runtime::start_with_options(
            Arc::new(provider.clone()),
            self.log.activities(self.sites.len()),
            orchestrations(),
            options,
        );
        let runtime = runtime.await;
        self.sites.push(Site {
            network,
            provider,
            runtime,
        });
    }

    pub(crate) async fn start(&self, instance: &str, orchestration: &str, input: &str) {
        let started = self
            .client
            .start_orchestration(instance, orchestration, input);
        started.await.expect("it is started");
    }

    /// Starts instances of activities.
    async fn fan(&self, prefix: &str, instances: usize, input: &str) {
        let all = (0..instances).map(async |number| {
            self.start(&format!("{prefix}{number}"), "Fan", input).await;
        });
        join_all(all).await;
    }

    pub(crate) async fn until_ended(&self, count: usize, within: Duration) -> Option<Duration> {
        let begun = Instant::now();
        while begun.elapsed() < within {
            if self.log.ended(|_| true) >= count {
                return Some(begun.elapsed());
            }
            sleep(millis(50)).await;
        }
        None
    }

    async fn remove(&self, select: &str) {
        let select = select.parse().expect("valid");
        let removed = self.provider.remove_limit(&select, "ada").await;
        removed.expect("it exists");
    }

    pub(crate) async fn close(self) {
        let all = self
            .sites
            .into_iter()
            .map(|site| site.runtime.shutdown(Some(100)));
        join_all(all).await;
        self.backend.stop().await;
    }
}

fn is(tag: &'static str) -> impl Fn(&Run) -> bool + Copy {
    move |run| run.tag == tag
}

pub(crate) fn of(prefix: &'static str) -> impl Fn(&Run) -> bool + Copy {
    move |run| run.instance.starts_with(prefix)
}

#[tokio::test(start_paused = true)]
async fn all_start_once_their_limit_is_removed() {
    let farm = or_skip!(Farm::open(4, 8, vec![rule("tag=bank").running(3)]).await);
    farm.fan("i", 4, "Work bank 50 1000").await;
    sleep(KNOWN).await;
    farm.remove("tag=bank").await;
    let took = farm.until_ended(200, secs(60)).await;
    // 32 workers have 164 of a second each.
    assert!(took <= Some(secs(17)), "{took:?}");
    set(&farm.provider, rule("tag=bank").running(2)).await;
    sleep(KNOWN).await;
    farm.fan("j", 2, "Work bank 10 1000").await;
    let took = farm.until_ended(220, secs(60)).await;
    assert!(took <= Some(secs(13)), "{took:?}");
    assert_eq!(farm.log.most(of("j")), 2);
    farm.close().await;
}

/// The turns of the first runtime schedule some of the activities, which its workers do not take.
#[tokio::test(start_paused = true)]
async fn a_runtime_that_cannot_run_activities_keeps_no_permits_from_others() {
    let mut farm = or_skip!(Farm::open(0, 1, vec![rule("*").running(1)]).await);
    farm.join(2, TagFilter::DefaultOnly).await;
    farm.join(2, TagFilter::tags(["gpu"])).await;
    sleep(KNOWN).await;
    farm.fan("i", 10, "Work gpu 2 500").await;
    let took = farm.until_ended(20, secs(60)).await;
    // Ten seconds of work. If the first runtime has scheduled all of them, they ask 2.5 s later (docs/limits.md).
    assert!(took <= Some(millis(12_500)), "{took:?}");
    assert_eq!(farm.log.most(of("i")), 1);
    farm.close().await;
}

/// The later part of a flood, which another runtime runs, does not pass the last of these activities, which waits.
async fn keeps_its_place(farm: Farm, few: impl Fn(&Run) -> bool + Copy, count: usize) {
    // Beyond the time by which the activities of others are out of order.
    sleep(secs(4)).await;
    farm.fan("later", 10, "Work cpu 10 500").await;
    assert!(farm.log.of(few).len() < count, "the limit is used up");
    let begun = Instant::now();
    while farm.log.ended(few) < count && begun.elapsed() < secs(60) {
        sleep(millis(50)).await;
    }
    let before = farm.log.ended(of("later"));
    assert!(before <= 10, "{before} of 100 later ones came before it");
    farm.close().await;
}

#[tokio::test(start_paused = true)]
async fn activities_of_a_tag_keep_their_place_beside_a_flood_of_other_runtimes() {
    let mut farm = or_skip!(Farm::open(0, 1, vec![rule("*").running(2)]).await);
    farm.join(4, TagFilter::tags(["cpu"])).await;
    sleep(KNOWN).await;
    farm.fan("flood", 10, "Work cpu 10 500").await;
    sleep(secs(3)).await;
    farm.join(4, TagFilter::tags(["gpu"])).await;
    farm.start("few", "Fan", "Work gpu 2 500").await;
    keeps_its_place(farm, is("gpu"), 1).await;
}

#[tokio::test(start_paused = true)]
async fn activities_of_a_session_keep_their_place_beside_a_flood_of_other_runtimes() {
    let mut farm = or_skip!(Farm::open(0, 1, vec![rule("*").running(2)]).await);
    farm.join(4, TagFilter::DefaultOnly).await;
    sleep(KNOWN).await;
    farm.start("few", "Session", "none 10").await;
    sleep(secs(1)).await;
    farm.join(4, TagFilter::tags(["cpu"])).await;
    farm.fan("flood", 10, "Work cpu 10 500").await;
    sleep(secs(8)).await;
    keeps_its_place(farm, of("few"), 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_shut_down_runtime_returns_its_permits_within_seconds() {
    let mut farm = or_skip!(Farm::open(1, 4, vec![rule("tag=bank").running(2)]).await);
    farm.fan("i", 4, "Work bank 5 2000").await;
    sleep(secs(3)).await;
    farm.join(4, TagFilter::Any).await;
    let first = farm.sites.remove(0);
    first.runtime.shutdown(Some(1_000)).await;
    first.provider.shutdown(secs(5)).await;
    let ended = Instant::now();
    let took = farm.until_ended(20, secs(60)).await;
    assert!(took.is_some());
    let starts = farm.log.of(|run| run.started >= ended);
    let waited = starts[0].started - ended;
    assert!(waited <= secs(6), "{waited:?}");
    farm.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_died_in_line_delays_nobody() {
    let farm = or_skip!(Farm::open(3, 2, vec![rule("tag=bank").running(1)]).await);
    farm.fan("i", 6, "Work bank 2 5000").await;
    sleep(secs(13)).await;
    let running = farm.log.of(|run| run.ended.is_none());
    let dead = (running[0].site + 1) % 3;
    farm.sites[dead].network.swallow(ANY);
    let took = farm.until_ended(12, secs(300)).await;
    assert!(took <= Some(secs(50)), "{took:?}");
    assert_eq!(farm.log.most(is("bank")), 1);
    farm.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_instance_that_waits_for_a_limit_delays_nobody() {
    let farm = or_skip!(Farm::open(2, 2, vec![rule("tag=bank").running(1)]).await);
    sleep(KNOWN).await;
    farm.fan("paused", 1, "Work bank 3 3000").await;
    sleep(millis(500)).await;
    farm.fan("other", 1, "Work bank 3 1000").await;
    ok!(farm.provider.pause("paused0", TreeScope::Alone, "ada"));
    let took = farm.until_ended(4, secs(60)).await;
    assert!(took <= Some(secs(7)), "{took:?}");
    sleep(secs(30)).await;
    assert_eq!(farm.log.runs().len(), 4);
    ok!(farm.provider.resume("paused0", TreeScope::Alone));
    let took = farm.until_ended(6, secs(60)).await;
    assert!(took <= Some(secs(9)), "{took:?}");
    farm.close().await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_activities_leave_the_line() {
    let farm = or_skip!(Farm::open(2, 3, vec![rule("tag=bank").running(1)]).await);
    sleep(KNOWN).await;
    farm.fan("a", 1, "Work bank 1 5000").await;
    sleep(millis(200)).await;
    farm.fan("b", 3, "Work bank 3 1000").await;
    for id in ["b0", "b1"] {
        let cancelled = farm.client.cancel_instance(id, "enough").await;
        cancelled.expect("it runs");
    }
    sleep(secs(20)).await;
    assert_eq!(farm.log.ended(of("b2")), 3);
    assert_eq!(farm.log.of(of("b")).len(), 3);
    farm.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_whose_document_was_deleted_is_kept_again_soon() {
    let farm = or_skip!(Farm::open(3, 4, vec![rule("tag=bank").running(4)]).await);
    farm.fan("i", 6, "Work bank 10 2000").await;
    sleep(KNOWN).await;
    let deleted = farm.provider.container();
    let deleted = deleted.run(LimitedKey::key_of("tag=bank").delete()).await;
    deleted.expect("it exists");
    let at = Instant::now();
    sleep(secs(6)).await;
    let soon = farm.log.most(move |run| run.started >= at + secs(4));
    assert_eq!(soon, 4);
    assert!(farm.until_ended(60, secs(60)).await.is_some());
    farm.close().await;
}

#[tokio::test(start_paused = true)]
async fn any_value_of_a_label_has_a_limit_of_its_own() {
    let rules = vec![rule("tag=*").running(2), rule("tenant=*").running(3)];
    let farm = or_skip!(Farm::open(2, 30, rules).await);
    sleep(KNOWN).await;
    let (long, umlauts) = ("x".repeat(64), "\u{fc}".repeat(32));
    let commas = ",".repeat(64);
    let tags = [
        "*", "a,b=c", "/?#\\", "%2C", "", &long, &umlauts, &commas, "'\"", "~0~1/",
    ];
    for (number, tag) in tags.iter().enumerate() {
        for tenant in ["acme", "/#?\\%", "", &commas] {
            let input = format!("Work {tag} 2 100");
            farm.fan(&format!("{tenant}:{number}-"), 1, &input).await;
        }
    }
    let took = farm.until_ended(tags.len() * 8, secs(60)).await;
    assert!(took <= Some(secs(5)), "{took:?}");
    for tag in tags {
        let most = farm.log.most(|run| run.tag == tag);
        assert!(most <= 2, "{tag}: {most}");
    }
    farm.close().await;
}

/// The leases of runtimes are deleted an hour after the last limit was removed.
#[tokio::test(start_paused = true)]
#[ignore = "takes a minute"]
async fn what_runs_counts_for_a_limit_that_is_set_after_hours_without_any() {
    let farm = or_skip!(Farm::open(2, 4, vec![rule("tag=other").running(1)]).await);
    sleep(KNOWN).await;
    farm.fan("warm", 2, "Work other 1 10").await;
    sleep(secs(5)).await;
    farm.remove("tag=other").await;
    sleep(secs(65 * 60)).await;
    farm.fan("long", 2, "Work bank 1 200000").await;
    sleep(secs(2)).await;
    assert_eq!(farm.log.most(is("bank")), 2);
    set(&farm.provider, rule("tag=bank").running(2)).await;
    sleep(KNOWN).await;
    farm.fan("more", 4, "Work bank 1 1000").await;
    sleep(secs(60)).await;
    assert_eq!(farm.log.most(is("bank")), 2);
    farm.close().await;
}
