//! duroxide's runtime with its default options.

use super::*;

async fn step(_: ActivityContext, input: String) -> Result<String, String> {
    sleep(ms(4)).await;
    assert!(input != "panic", "an activity panics");
    Ok(input)
}

async fn waits(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ctx.schedule_activity("Step", "a").await?;
    let event = ctx.schedule_wait("go");
    let timer = ctx.schedule_timer(Duration::from_secs(2));
    match ctx.select2(event, timer).await {
        Either2::First(data) => drop(data),
        Either2::Second(()) => {}
    }
    ctx.schedule_activity("Step", "b").await?;
    Ok(input)
}

async fn panics(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    assert!(input != "first", "at once");
    if input == "activity" {
        return ctx.schedule_activity("Step", "panic").await;
    }
    ctx.schedule_activity("Step", "a").await?;
    panic!("later");
}

async fn detaches(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ctx.schedule_activity("Step", "a").await?;
    ctx.schedule_orchestration("Waits", format!("child-{input}"), "x");
    ctx.schedule_activity("Step", "b").await?;
    Ok(input)
}

async fn runtime(
    backend: &Backend,
    policy: &HandOver,
) -> (Network, Arc<Runtime>, Client, CosmosDBProvider) {
    let network = Network::default();
    let policy = policy.clone();
    let provider = network.provider_with(backend, |config| config.hand_over = policy);
    let provider = provider.await.expect("simulated");
    network.slow_down(ANY, ms(3));
    let activities = ActivityRegistry::builder().register("Step", step).build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Waits", waits)
        .register("Panics", panics)
        .register("Detaches", detaches)
        .build();
    let options = RuntimeOptions {
        orchestration_concurrency: 4,
        worker_concurrency: 4,
        ..RuntimeOptions::default()
    };
    let shared = Arc::new(provider.clone());
    let runtime =
        Runtime::start_with_options(shared.clone(), activities, orchestrations, options).await;
    (network, runtime, Client::new(shared), provider)
}

/// Returns how each instance has ended.
#[expect(clippy::excessive_nesting, reason = "tasks of one run")]
async fn at_once(policy: HandOver) -> Option<BTreeMap<String, String>> {
    let backend = Backend::start_in_simulated_time(|_| {}).await?;
    let (_network, runtime, client, provider) = runtime(&backend, &policy).await;
    let other = backend.provider().await;
    let other_client = Client::new(Arc::new(other.clone()));
    sleep(SECOND * 3).await;
    let mut all = Vec::new();
    for after in [0_u64, 1, 2, 3, 4, 6, 8, 10, 13] {
        for what in ["event", "cancel", "pause", "delete", "none"] {
            for is_awaited in [true, false] {
                let name = format!("{what}-{after}-{is_awaited}");
                let (client, own) = (client.clone(), provider.clone());
                let (other, other_client) = (other.clone(), other_client.clone());
                all.push(tokio::spawn(async move {
                    let started = {
                        let (client, name) = (client.clone(), name.clone());
                        tokio::spawn(async move {
                            client.start_orchestration(&name, "Waits", "x").await
                        })
                    };
                    let mut answer = None;
                    if is_awaited {
                        answer = Some(started.await.expect("no panic"));
                    } else {
                        sleep(ms(after)).await;
                    }
                    let done = match what {
                        "event" => client.raise_event(&name, "go", "x").await.is_ok(),
                        "cancel" => other_client.cancel_instance(&name, "why").await.is_ok(),
                        "pause" => {
                            let paused = other.pause(&name, TreeScope::Tree, "ada").await.is_ok();
                            sleep(SECOND * 5).await;
                            let _resumed = own.resume(&name, TreeScope::Tree).await;
                            paused
                        }
                        "delete" => other_client.delete_instance(&name, true).await.is_ok(),
                        _ => true,
                    };
                    sleep(SECOND * 90).await;
                    let status = match ok!(client.get_orchestration_status(&name)) {
                        OrchestrationStatus::Completed { .. } => "completed".to_owned(),
                        OrchestrationStatus::Failed { details, .. } => details.display_message(),
                        other => format!("{other:?}"),
                    };
                    let answer = answer.map(|it| it.is_ok());
                    (name, format!("{status}, {what} {done}, start {answer:?}"))
                }));
            }
        }
    }
    let mut ends = BTreeMap::new();
    for one in all {
        let (name, end) = one.await.expect("no panic");
        ends.insert(name, end);
    }
    runtime.shutdown(Some(100)).await;
    backend.stop().await;
    Some(ends)
}

#[tokio::test(start_paused = true)]
async fn a_start_and_something_at_once() {
    let (never, handed) = or_skip!(compared(at_once).await);
    let mut hanging = Vec::new();
    for (name, end) in &handed {
        let before = &never[name];
        if before != end {
            println!("{name}: never {before}, handed over {end}");
        }
        if end.contains("Running") && !before.contains("Running") {
            hanging.push((name, before, end));
        }
        if name.contains("true") && before != end {
            hanging.push((name, before, end));
        }
    }
    assert!(hanging.is_empty(), "{hanging:#?}");
}

async fn unusual(policy: HandOver) -> Option<BTreeMap<String, String>> {
    let backend = Backend::start_in_simulated_time(|_| {}).await?;
    let (_network, runtime, client, provider) = runtime(&backend, &policy).await;
    sleep(SECOND * 3).await;
    for (name, kind, input) in [
        ("p-first", "Panics", "first"),
        ("p-activity", "Panics", "activity"),
        ("p-later", "Panics", "later"),
        ("detaches", "Detaches", "d"),
        ("unknown", "Unknown", "x"),
        ("unknown-2", "Unknown", "x"),
    ] {
        ok!(client.start_orchestration(name, kind, input));
    }
    ok!(client.cancel_instance("unknown-2", "why"));
    sleep(SECOND * 60).await;
    let mut ends = BTreeMap::new();
    let panics = ["p-first", "p-activity", "p-later"];
    let others = ["detaches", "child-d", "unknown", "unknown-2"];
    for name in panics.into_iter().chain(others) {
        let status = ok!(client.get_orchestration_status(name));
        let status = match status {
            OrchestrationStatus::Completed { output, .. } => format!("completed {output}"),
            OrchestrationStatus::Failed { details, .. } => {
                let text = details.display_message();
                text.split("panicked").last().unwrap_or_default().to_owned()
            }
            other => format!("{other:?}"),
        };
        let events = provider.read(name).await.map(|events| events.len());
        ends.insert(name.to_owned(), format!("{status}, {events:?} events"));
    }
    runtime.shutdown(Some(100)).await;
    // Other code finds those that are held.
    let count = backend.provider().await;
    let (item, attempt) = loop {
        let (item, _, attempt) = next_turn(&count, LOCK).await;
        if item.instance == "unknown" {
            break (item, attempt);
        }
    };
    let found = format!("{attempt}, {}", item.messages.len());
    ends.insert("attempt".to_owned(), found);
    backend.stop().await;
    Some(ends)
}

#[tokio::test(start_paused = true)]
async fn panics_and_unregistered_ones() {
    let (never, handed) = or_skip!(compared(unusual).await);
    assert_eq!(never, handed);
}

/// A start that is not awaited, whose creation is slow, of an orchestration that is not registered.
#[tokio::test(start_paused = true)]
async fn a_slow_start_of_an_unregistered_one() {
    for policy in [HandOver::Never, HandOver::default()] {
        let backend = or_skip!(Backend::start_in_simulated_time(|_| {}).await);
        let (network, runtime, client, _provider) = runtime(&backend, &policy).await;
        sleep(SECOND * 3).await;
        network.slow_down(CREATE, SECOND * 3);
        ok!(client.start_orchestration("unknown", "Unknown", "x"));
        network.slow_down(ANY, ms(3));
        ok!(client.cancel_instance("unknown", "why"));
        sleep(SECOND * 90).await;
        let status = ok!(client.get_orchestration_status("unknown"));
        let has_failed = matches!(status, OrchestrationStatus::Failed { .. });
        assert!(has_failed, "{policy:?}: {status:?}");
        runtime.shutdown(Some(100)).await;
        backend.stop().await;
    }
}

async fn sleeps(_: ActivityContext, millis: String) -> Result<String, String> {
    sleep(Duration::from_millis(millis.parse().expect("a number"))).await;
    Ok(millis)
}

async fn chain(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let (depth, millis) = input.split_once(' ').expect("two numbers");
    for _ in 0..depth.parse::<u64>().expect("a number") {
        ctx.schedule_activity("Sleeps", millis).await?;
    }
    Ok(input)
}

/// A runtime of duroxide with its default numbers of dispatchers and workers.
async fn singles_beside_chains(policy: HandOver, millis: u64) -> Option<(Vec<Duration>, Duration)> {
    let backend = Backend::start_in_simulated_time(|_| {}).await?;
    let network = Network::default();
    let change = |config: &mut CosmosDBProviderConfig| config.hand_over = policy;
    let provider = Arc::new(network.provider_with(&backend, change).await?);
    network.slow_down(ANY, ms(5));
    let activities = ActivityRegistry::builder()
        .register("Sleeps", sleeps)
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Chain", chain)
        .build();
    let options = RuntimeOptions::default();
    let runtime =
        Runtime::start_with_options(provider.clone(), activities, orchestrations, options);
    let runtime = runtime.await;
    let client = Client::new(provider);
    sleep(SECOND * 5).await;
    let begun = Instant::now();
    for number in 0..2 {
        let started =
            client.start_orchestration(format!("chain-{number}"), "Chain", format!("60 {millis}"));
        started.await.expect("it starts");
    }
    let mut singles = Vec::new();
    for number in 0..8 {
        let client = client.clone();
        singles.push(tokio::spawn(async move {
            sleep(ms(200 + number * millis * 3)).await;
            let begun = Instant::now();
            let name = format!("single-{number}");
            let started = client.start_orchestration(&name, "Chain", format!("1 {millis}"));
            started.await.expect("it starts");
            loop {
                let status = ok!(client.get_orchestration_status(&name));
                if matches!(status, OrchestrationStatus::Completed { .. }) {
                    return begun.elapsed();
                }
                sleep(ms(5)).await;
            }
        }));
    }
    let mut times = Vec::new();
    for single in singles {
        times.push(single.await.expect("no panic"));
    }
    for number in 0..2 {
        let ended = client
            .wait_for_orchestration(&format!("chain-{number}"), SECOND * 300)
            .await;
        ended.expect("it ends");
    }
    let took = begun.elapsed();
    runtime.shutdown(Some(100)).await;
    backend.stop().await;
    Some((times, took))
}

#[tokio::test(start_paused = true)]
async fn two_chains_starve_nobody_in_a_default_runtime() {
    let mut slower = Vec::new();
    for millis in [60, 200] {
        let (never, handed) =
            or_skip!(compared(async |policy| singles_beside_chains(policy, millis).await).await);
        if handed.0.iter().max() > never.0.iter().max().map(|it| *it * 2).as_ref() {
            slower.push((millis, never, handed));
        }
    }
    assert!(slower.is_empty(), "{slower:?}");
}

/// A process that always has work of its own finds the starts of a client elsewhere.
async fn remote_starts(policy: HandOver, activity: u64) -> Option<Vec<Duration>> {
    let backend = Backend::start_in_simulated_time(|_| {}).await?;
    let tally = Shared::default();
    let size = Size {
        dispatchers: 2,
        ..Size::new(2, activity, 1, 4)
    };
    let busy = site(&backend, &policy, &size, &tally).await;
    let client = backend.provider().await;
    sleep(SECOND * 5).await;
    for number in 0..6 {
        let name = format!("plain-2-1000-{number}");
        start(busy.provider.clone(), name, tally.clone()).await;
    }
    let mut names = Vec::new();
    for number in 0..8 {
        sleep(ms(300)).await;
        let name = format!("plain-1-2-{}", 100 + number);
        start(client.clone(), name.clone(), tally.clone()).await;
        names.push(name);
    }
    let _is_over = all_ended(&tally, &names, SECOND * 60).await;
    busy.tasks.iter().for_each(JoinHandle::abort);
    let tally = std::mem::take(&mut *tally.lock().expect("no panic"));
    let time = |name: &String| {
        let ended = tally.ended.get(name).map(|it| *it - tally.begun[name]);
        ended.unwrap_or(SECOND * 60)
    };
    let times = names.iter().map(time).collect();
    backend.stop().await;
    Some(times)
}

#[tokio::test(start_paused = true)]
async fn starts_elsewhere_are_found() {
    let mut slower = Vec::new();
    for activity in [2, 30] {
        let (never, handed) =
            or_skip!(compared(async |policy| remote_starts(policy, activity).await).await);
        if handed.iter().max() > never.iter().max().map(|it| *it * 13 / 10 + ms(50)).as_ref() {
            slower.push((activity, never, handed));
        }
    }
    assert!(slower.is_empty(), "{slower:?}");
}
