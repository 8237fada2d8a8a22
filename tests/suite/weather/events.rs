//! Queued events of several senders arrive once and in the order of their sends, whatever fails.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::{CosmosDBProvider, Extent};
use cdb_tests::Backend;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Client, Either2, OrchestrationContext, OrchestrationRegistry,
    OrchestrationStatus,
};
use tokio::time::sleep;

use super::network::{Rules, What};
use super::site::defaults;
use crate::harness::end_within;
use crate::network::{ANY, CREATE, Network, WRITE};

pub(super) const MS: fn(u64) -> Duration = Duration::from_millis;
pub(super) const SECOND: Duration = Duration::from_secs(1);

const STYLES: [&str; 4] = ["rounds", "mixed", "at once", "select"];

/// Numbers from a seed.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }
}

/// The name of an event, which may be the beginning of a large one.
fn name(event: &str) -> &str {
    event.split('#').next().unwrap_or_default()
}

async fn next(ctx: &OrchestrationContext, style: &str) -> String {
    if style != "select" {
        return ctx.dequeue_event("Orders").await;
    }
    loop {
        let timer = ctx.schedule_timer(MS(1_500));
        let event = ctx.dequeue_event("Orders");
        match ctx.select2(timer, event).await {
            Either2::First(()) => {}
            Either2::Second(event) => return event,
        }
    }
}

/// The input is the style and what was taken.
async fn taker(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let (style, taken) = input.split_once('|').expect("a style");
    let mut taken = taken.to_owned();
    let most = match style {
        "rounds" => 1,
        "mixed" => 7,
        "slow" => 5,
        "select" => 12,
        _ => usize::MAX,
    };
    let mut number = 0;
    while number < most {
        let event = next(&ctx, style).await;
        let event = name(&event);
        if event == "last" {
            return Ok(taken);
        }
        taken = format!("{taken} {event}");
        number += 1;
        if style == "slow" {
            ctx.schedule_timer(MS(100)).await;
        }
        if style == "mixed" && number % 3 == 0 {
            ctx.schedule_activity("Step", "").await?;
            ctx.schedule_timer(MS(50)).await;
        }
    }
    ctx.continue_as_new(format!("{style}|{taken}")).await
}

pub(super) async fn run(provider: CosmosDBProvider) -> Arc<Runtime> {
    run_code(provider, true).await
}

/// Runs a deployment that knows the orchestration or does not.
async fn run_code(provider: CosmosDBProvider, is_known: bool) -> Arc<Runtime> {
    let orchestrations = OrchestrationRegistry::builder();
    let orchestrations = if is_known {
        orchestrations.register("Taker", taker).build()
    } else {
        orchestrations.build()
    };
    let activities = ActivityRegistry::builder()
        .register("Step", async |_: ActivityContext, _: String| {
            Ok(String::new())
        })
        .build();
    let options = RuntimeOptions::default();
    Runtime::start_with_options(Arc::new(provider), activities, orchestrations, options).await
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) partitions: u32,
    pub(super) events: usize,
    pub(super) large: usize,
    pub(super) kills: bool,
    pub(super) zombies: bool,
    pub(super) pauses: bool,
    pub(super) faults: f64,
    pub(super) lost: f64,
    pub(super) copies: bool,
    pub(super) freezes: bool,
    /// The sender also runs the instances.
    pub(super) own: bool,
    pub(super) late_start: bool,
    /// Some deployments do not know the orchestration.
    pub(super) holds: bool,
}

pub(super) const CALM: Plan = Plan {
    seed: 1,
    partitions: 1,
    events: 40,
    large: 0,
    kills: false,
    zombies: false,
    pauses: false,
    faults: 0.0,
    lost: 0.0,
    copies: false,
    freezes: false,
    own: false,
    late_start: false,
    holds: false,
};

/// Copies of refused requests that arrive later.
fn copied(plan: Plan) -> What {
    let delays = [100, 1_000, 4_000, 20_000];
    What::CopiedWhenRefused(MS(delays[plan.seed as usize % delays.len()]))
}

pub(super) type Sent = Vec<(String, bool)>;

async fn send(client: Client, instance: String, sender: usize, plan: Plan) -> Sent {
    let mut random = Random::new(plan.seed * 31 + sender as u64);
    let mut sent = Vec::new();
    for number in 0..plan.events {
        let name = format!("{sender}.{number}");
        let body = match random.below(40) {
            0 if plan.large > 0 => "x".repeat(plan.large),
            _ => String::new(),
        };
        let queued = client.enqueue_event(&*instance, "Orders", format!("{name}#{body}"));
        let result = queued.await;
        sent.push((name, result.is_ok()));
        sleep(match random.below(12) {
            0 => MS(random.below(1_500)),
            1..4 => MS(random.below(40)),
            _ => Duration::ZERO,
        })
        .await;
    }
    sent
}

/// Returns what is wrong.
pub(super) fn check(taken: &str, sent: &[Sent]) -> Vec<String> {
    let taken: Vec<&str> = taken.split_whitespace().collect();
    let mut wrong = Vec::new();
    let distinct: BTreeSet<&str> = taken.iter().copied().collect();
    if distinct.len() != taken.len() {
        wrong.push(format!("doubled: {taken:?}"));
    }
    for sent in sent {
        let mut at = 0;
        for (name, is_sent) in sent {
            let found = taken.iter().position(|event| event == name);
            match found {
                Some(found) if found < at => {
                    let before: Vec<_> = taken[found..=at.min(found + 4)].to_vec();
                    wrong.push(format!("{name} is out of order: {before:?}"));
                }
                Some(found) => at = found,
                None if *is_sent => wrong.push(format!("{name} is lost")),
                None => {}
            }
        }
    }
    wrong
}

pub(super) async fn torture(plan: Plan) -> Vec<String> {
    let Some(backend) = Backend::start_simulated_on(plan.partitions).await else {
        return vec![];
    };
    let emulator = backend.emulator().expect("not on an account");
    emulator
        .change(|settings| settings.seed(plan.seed))
        .expect("it has a seed");
    let clean = backend.provider_with(defaults).await;
    let desk = Client::new(Arc::new(clean.clone()));
    let ids: Vec<String> = STYLES.iter().map(|style| format!("{style}-i")).collect();
    let mut networks = Vec::new();
    let mut runtimes = Vec::new();
    for number in 0..2 {
        let rules = Rules::seeded(plan.seed + number);
        if plan.copies {
            rules.add_everywhere(ANY, 0.7, copied(plan));
        }
        let provider = rules.provider(&backend, defaults).await;
        networks.push((rules, provider.clone()));
        runtimes.push(run(provider).await);
    }
    let begin = async || {
        for (id, style) in ids.iter().zip(STYLES) {
            let begun = desk.start_orchestration(&**id, "Taker", format!("{style}|"));
            begun.await.expect("it is started");
        }
    };
    if !plan.late_start {
        begin().await;
    }
    let mut senders = tokio::task::JoinSet::new();
    let mut frozen = Vec::new();
    for sender in 0..2 {
        let (provider, network) = if plan.own && sender == 0 {
            (networks[0].1.clone(), None)
        } else if plan.freezes {
            let network = Network::default();
            let provider = network.provider_with(&backend, defaults).await;
            (provider.expect("not on an account"), Some(network))
        } else {
            let rules = Rules::seeded(plan.seed * 7 + sender as u64);
            if plan.lost > 0.0 {
                rules.add_everywhere(WRITE, plan.lost, What::AnswerLost);
                rules.add_everywhere(WRITE, plan.lost * 2.0, What::AnsweredLate(MS(300)));
                rules.add_everywhere(WRITE, plan.lost, What::ArrivesLate(MS(400)));
            }
            if plan.copies {
                rules.add_everywhere(ANY, 0.7, copied(plan));
            }
            (rules.provider(&backend, defaults).await, None)
        };
        for id in &ids {
            let client = Client::new(Arc::new(provider.clone()));
            let work = send(client, id.clone(), sender, plan);
            let (network, id) = (network.clone(), id.clone());
            senders.spawn(async move {
                let sent = match &network {
                    Some(network) => network.process(work).await,
                    None => work.await,
                };
                (id, sent)
            });
        }
        frozen.extend(network);
    }
    if plan.faults > 0.0 {
        for fault in Fault::in_five_ways(plan.faults) {
            emulator.inject(fault);
        }
        let refused = Fault::with_probability(Effect::error(503, 0), plan.faults);
        emulator.inject(refused.on(OperationKind::Create));
    }
    let mut random = Random::new(plan.seed);
    let mut sent: Vec<(String, Sent)> = Vec::new();
    let mut rounds = 0;
    loop {
        if plan.late_start && rounds == 2 {
            begin().await;
        }
        rounds += 1;
        let pause = MS(200 + random.below(2_500));
        let deadline = tokio::time::Instant::now() + pause;
        while let Ok(Some(done)) = tokio::time::timeout_at(deadline, senders.join_next()).await {
            sent.push(done.expect("no sender panics"));
        }
        if senders.is_empty() && rounds > 3 {
            break;
        }
        sleep(deadline.saturating_duration_since(tokio::time::Instant::now())).await;
        for network in &frozen {
            if random.below(3) == 0 {
                network.freeze_after(random.below(6) as usize, CREATE, SECOND * 12);
            }
        }
        if plan.kills && random.below(3) == 0 {
            let rules = Rules::seeded(plan.seed + rounds);
            let provider = rules.provider(&backend, defaults).await;
            let at = usize::from(!plan.own && random.below(2) == 0);
            let at = if plan.own { 1 } else { at };
            let is_known = !plan.holds || random.below(2) == 0;
            let next = run_code(provider.clone(), is_known).await;
            let old = std::mem::replace(&mut runtimes[at], next);
            networks[at] = (rules, provider);
            old.shutdown(Some(0)).await;
        }
        if plan.zombies && random.below(3) == 0 {
            let at = random.below(2) as usize;
            networks[at]
                .0
                .add_everywhere(ANY, 1.0, What::ArrivesLate(MS(random.below(20_000))));
        } else if plan.zombies {
            networks.iter().for_each(|(rules, _)| rules.clear());
        }
        if plan.pauses && random.below(2) == 0 {
            let id = &ids[random.below(4) as usize];
            let paused = clean.pause(id, Extent::Alone, "ada").await;
            sleep(MS(random.below(3_000))).await;
            loop {
                match clean.resume(id, Extent::Alone).await {
                    Ok(_) => break,
                    Err(error) if paused.is_ok() => println!("  resume: {error:?}"),
                    Err(_) => break,
                }
                sleep(MS(300)).await;
            }
        }
    }
    emulator.clear_faults();
    networks.iter().for_each(|(rules, _)| rules.clear());
    if plan.holds {
        for runtime in &mut runtimes {
            let provider = backend.provider_with(defaults).await;
            let old = std::mem::replace(runtime, run(provider).await);
            old.shutdown(Some(0)).await;
        }
    }
    sleep(SECOND * 20).await;
    let mut wrong = Vec::new();
    for id in &ids {
        let queued = desk.enqueue_event(&**id, "Orders", "last").await;
        queued.expect("it is queued");
        let sent: Vec<Sent> = sent
            .iter()
            .filter(|(of, _)| of == id)
            .map(|(_, sent)| sent.clone())
            .collect();
        let all: usize = sent.iter().map(Vec::len).sum();
        let failed = sent
            .iter()
            .flatten()
            .filter(|(_, is_sent)| !is_sent)
            .count();
        let found = match end_within(&desk, id, SECOND * 400).await {
            Ok(OrchestrationStatus::Completed { output, .. }) => check(&output, &sent),
            other => vec![format!("{other:?}")],
        };
        if !found.is_empty() {
            println!("{id}, {all} sent, {failed} failed: {found:?}");
        }
        wrong.extend(
            found
                .into_iter()
                .map(|what| format!("{plan:?} {id}: {what}")),
        );
    }
    println!("{plan:?}: {} wrong", wrong.len());
    for runtime in runtimes {
        runtime.shutdown(Some(0)).await;
    }
    backend.stop().await;
    wrong
}
