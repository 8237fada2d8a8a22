//! Shutdowns, deaths and bad weather, on one and on several processes: nothing accepted is lost or doubled.

use super::*;

type Accepted = Arc<Mutex<Vec<String>>>;

/// As many dispatchers as workers.
fn crew(each: usize, activity: u64, code: u64, latency: u64) -> Size {
    let mut size = Size::new(each, activity, code, latency);
    size.dispatchers = each;
    size
}

/// Starts an instance after a time, and notes it if the start is accepted.
fn start_after(
    time: Duration,
    provider: &CosmosDBProvider,
    instance: String,
    accepted: &Accepted,
) -> JoinHandle<()> {
    let (provider, accepted) = (provider.clone(), accepted.clone());
    tokio::spawn(async move {
        sleep(time).await;
        let start = start_of(&instance, "Wait");
        if provider.enqueue_for_orchestrator(start, None).await.is_ok() {
            accepted.lock().expect("no panic").push(instance);
        }
    })
}

/// Starts thirty instances of six activities each.
fn start_thirty(provider: &CosmosDBProvider, accepted: &Accepted) -> Vec<JoinHandle<()>> {
    let start = |number| {
        let instance = format!("plain-2-3-{number}");
        start_after(ms(number * 3), provider, instance, accepted)
    };
    (0..30_u64).map(start).collect()
}

/// Checks that each accepted instance has each of its completions once, and that no activity whose end was
/// accepted ran again.
async fn check_all_received(what: &str, second: &Site, accepted: &Accepted, tally: &Shared) {
    let accepted = accepted.lock().expect("no panic").clone();
    for instance in &accepted {
        let received = received(&second.provider, instance).await;
        let is_whole = received.len() == 6 && received.values().all(|it| *it == 1);
        assert!(is_whole, "{what}, {instance}: {received:?}");
    }
    second.tasks.iter().for_each(JoinHandle::abort);
    check_none_repeated(&format!("{what}: {} accepted", accepted.len()), tally);
}

fn check_none_repeated(what: &str, tally: &Shared) {
    let tally = tally.lock().expect("no panic");
    let twice = tally.runs.values().filter(|it| **it > 1).count();
    println!(
        "{what}, {twice} ran twice, {} of {} turns lost, {} acks failed",
        tally.lost_turns, tally.turns, tally.failed_acks
    );
    assert!(tally.repeated.is_empty(), "{what}: {:?}", tally.repeated);
}

async fn shutdown_in_the_middle(policy: HandOver, at: u64) -> Option<()> {
    let backend = Backend::start_in_simulated_time(|_| {}).await?;
    let tally = Shared::default();
    let size = Size::new(4, 2, 3, 4);
    let first = site(&backend, &policy, &size, &tally).await;
    sleep(SECOND * 2).await;
    let accepted = Accepted::default();
    let starts = start_thirty(&first.provider, &accepted);
    sleep(ms(at)).await;
    first.provider.shutdown(SECOND * 5).await;
    sleep(ms(200)).await;
    first.tasks.iter().for_each(JoinHandle::abort);
    for start in starts {
        let _started = start.await;
    }
    drop(first);
    let second = site(&backend, &policy, &size, &tally).await;
    // Its session knows the commits of the other process by then.
    sleep(SECOND * 110).await;
    check_all_received(&format!("{policy:?} at {at}"), &second, &accepted, &tally).await;
    backend.stop().await;
    Some(())
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_in_the_middle_loses_nothing() {
    for at in [0, 7, 15, 22, 31, 44, 60, 75, 90, 110] {
        for policy in [HandOver::Never, HandOver::default()] {
            or_skip!(shutdown_in_the_middle(policy, at).await);
        }
    }
}

/// Waits until the histories of all these instances have eight completions, each once.
async fn all_received(what: &str, reader: &CosmosDBProvider, mut left: Vec<String>) {
    let begun = Instant::now();
    while !left.is_empty() {
        assert!(
            begun.elapsed() < SECOND * 200,
            "{what}: {left:?} have not ended"
        );
        sleep(SECOND).await;
        let mut more = Vec::new();
        for name in left {
            let received = received(reader, &name).await;
            let is_once = received.values().all(|it| *it == 1);
            assert!(is_once, "{what}, {name}: {received:?}");
            if received.len() < 8 {
                more.push(name);
            }
        }
        left = more;
    }
}

/// Returns what draws numbers below a limit.
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    move |end| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % end
    }
}

/// Processes with and without the setting, whose networks stall, and pauses.
async fn weather(seed: u64) -> Option<()> {
    let backend = Backend::start_in_simulated_time(|_| {}).await?;
    let tally = Shared::default();
    let (mut networks, mut providers, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
    for policy in [HandOver::default(), HandOver::Never, HandOver::default()] {
        let network = Network::default();
        let provider = network.provider_with(&backend, |config| config.hand_over = policy);
        let provider = provider.await?;
        tasks.extend(staff(&provider, &crew(4, 2, 2, 3), &tally));
        networks.push(network);
        providers.push(provider);
    }
    sleep(SECOND * 2).await;
    let mut below = random(seed);
    let accepted = Accepted::default();
    let mut starts = Vec::new();
    for number in 0..30_u64 {
        let provider = &providers[usize::try_from(below(3)).expect("few")];
        let (after, name) = (ms(below(4_000)), format!("plain-2-4-{number}"));
        starts.push(start_after(after, provider, name, &accepted));
    }
    for _ in 0..8 {
        sleep(ms(below(800))).await;
        let at = usize::try_from(below(3)).expect("few");
        match below(5) {
            0 => networks[at].stall_at(BATCH, ms(500 + below(40_000))),
            1 => networks[at].slow_down(ANY, ms(below(60))),
            2 => networks[at].answer_late(BATCH, ms(below(6_000))),
            3 => networks[at].repair(),
            _ => {
                let name = format!("plain-2-4-{}", below(30));
                let provider = backend.provider().await;
                let _paused = provider.pause(&name, TreeScope::Alone, "ada").await;
                sleep(ms(below(100))).await;
                let _resumed = provider.resume(&name, TreeScope::Alone).await;
            }
        }
    }
    sleep(SECOND * 45).await;
    networks.iter().for_each(Network::repair);
    for start in starts {
        start.await.expect("no panic");
    }
    let accepted = accepted.lock().expect("no panic").clone();
    let reader = backend.provider().await;
    for name in &accepted {
        let _resumed = reader.resume(name, TreeScope::Alone).await;
    }
    let what = format!("seed {seed}: {} accepted", accepted.len());
    all_received(&what, &reader, accepted).await;
    tasks.iter().for_each(JoinHandle::abort);
    check_none_repeated(&what, &tally);
    backend.stop().await;
    Some(())
}

#[tokio::test(start_paused = true)]
async fn mixed_processes_in_bad_weather() {
    for seed in 0..4 {
        or_skip!(weather(seed).await);
    }
}

/// Real time and several threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn by_many_threads() {
    let backend = Backend::start_with(|_| {}).await;
    let tally = Shared::default();
    let providers = [backend.provider().await, backend.provider().await];
    let tasks = providers
        .each_ref()
        .map(|it| staff(it, &crew(8, 0, 0, 0), &tally));
    let all = many("plain", 8, 6, 60);
    let starts = all
        .iter()
        .enumerate()
        .map(|(number, (_, it))| start(providers[number % 2].clone(), it.clone(), tally.clone()));
    futures::future::join_all(starts).await;
    let names: Vec<_> = all.iter().map(|(_, it)| it.clone()).collect();
    let is_over = all_ended(&tally, &names, SECOND * 100).await;
    tasks.iter().flatten().for_each(JoinHandle::abort);
    assert!(is_over);
    check_none_repeated("many threads", &tally);
    for (instance, completed) in &tally.lock().expect("no panic").completed {
        assert_eq!(*completed, 48, "{instance}");
    }
    backend.stop().await;
}

#[ignore = "takes a minute"]
#[tokio::test(start_paused = true)]
async fn mixed_processes_in_more_weather() {
    for seed in 100..125 {
        or_skip!(weather(seed).await);
    }
}

/// A process dies in the middle; another one goes on.
async fn death_in_the_middle(policy: HandOver, at: u64) -> Option<()> {
    let backend = Backend::start_in_simulated_time(|_| {}).await?;
    let tally = Shared::default();
    let network = Network::default();
    let own = policy.clone();
    let provider = network.provider_with(&backend, |config| config.hand_over = own);
    let provider = provider.await?;
    network.slow_down(ANY, ms(4));
    let mut tasks = staff(&provider, &crew(4, 2, 3, 4), &tally);
    sleep(SECOND * 2).await;
    let accepted = Accepted::default();
    tasks.extend(start_thirty(&provider, &accepted));
    sleep(ms(at)).await;
    network.swallow(ANY);
    tasks.iter().for_each(JoinHandle::abort);
    sleep(MOMENT).await;
    drop(provider);
    tally.lock().expect("no panic").runs.clear();
    let second = site(&backend, &policy, &Size::new(4, 2, 3, 4), &tally).await;
    sleep(SECOND * 150).await;
    check_all_received(&format!("{policy:?} at {at}"), &second, &accepted, &tally).await;
    backend.stop().await;
    Some(())
}

#[tokio::test(start_paused = true)]
async fn a_death_in_the_middle_loses_nothing_accepted() {
    for at in [9, 16, 23, 32, 41, 58, 77, 95] {
        for policy in [HandOver::Never, HandOver::default()] {
            or_skip!(death_in_the_middle(policy, at).await);
        }
    }
}
