//! Shutdowns, deaths and bad weather, on one and on several processes: nothing accepted is lost or doubled.

use super::*;

#[expect(clippy::too_many_lines, reason = "the steps of one run")]
async fn shutdown_in_the_middle(policy: HandOver, at: u64) -> Option<()> {
    let backend = Backend::start_in_simulated_time(|_| {}).await?;
    let tally = Shared::default();
    let size = Size::new(4, 2, 3, 4);
    let first = site(&backend, &policy, &size, &tally).await;
    sleep(SECOND * 2).await;
    let accepted = Arc::new(Mutex::new(Vec::new()));
    let mut starts = Vec::new();
    for number in 0..30_u64 {
        let (provider, accepted) = (first.provider.clone(), accepted.clone());
        starts.push(tokio::spawn(async move {
            sleep(ms(number * 3)).await;
            let instance = format!("plain-2-3-{number}");
            let start = start_of(&instance, "Wait");
            if provider.enqueue_for_orchestrator(start, None).await.is_ok() {
                accepted.lock().expect("no panic").push(instance);
            }
        }));
    }
    sleep(ms(at)).await;
    first.provider.shutdown(SECOND * 5).await;
    sleep(ms(200)).await;
    first.tasks.iter().for_each(JoinHandle::abort);
    for start in starts {
        let _started = start.await;
    }
    drop(first);
    let second = site(&backend, &policy, &size, &tally).await;
    let accepted = accepted.lock().expect("no panic").clone();
    sleep(SECOND * 100).await;
    // Its session knows the commits of the other process by then.
    sleep(SECOND * 10).await;
    for instance in &accepted {
        let history = second.provider.read(instance).await.expect("a history");
        let mut received = BTreeMap::<u64, u64>::new();
        for event in history {
            if let (EventKind::ActivityCompleted { .. }, Some(of)) =
                (&event.kind, event.source_event_id)
            {
                *received.entry(of).or_default() += 1;
            }
        }
        assert!(
            received.len() == 6 && received.values().all(|it| *it == 1),
            "{policy:?} at {at}, {instance}: {received:?}, {:?}, {:?}",
            second.provider.read(instance).await,
            tally.lock().expect("no panic").completed.get(instance)
        );
    }
    second.tasks.iter().for_each(JoinHandle::abort);
    let tally = std::mem::take(&mut *tally.lock().expect("no panic"));
    let twice: Vec<_> = tally.runs.iter().filter(|(_, runs)| **runs > 1).collect();
    println!(
        "{policy:?} at {at}: {} accepted, {} ran twice, {} turns lost",
        accepted.len(),
        twice.len(),
        tally.lost_turns
    );
    assert!(
        tally.repeated.is_empty(),
        "{policy:?} at {at}: {:?}",
        tally.repeated
    );
    backend.stop().await;
    Some(())
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_in_the_middle_loses_nothing() {
    for at in [0, 7, 15, 22, 31, 44, 60, 75, 90, 110] {
        for policy in [HandOver::Never, HandOver::default()] {
            if shutdown_in_the_middle(policy, at).await.is_none() {
                return;
            }
        }
    }
}

/// Processes with and without the setting, whose networks stall, and pauses.
#[expect(clippy::too_many_lines, reason = "the steps of one run")]
async fn weather(seed: u64) -> Option<()> {
    let backend = Backend::start_in_simulated_time(|_| {}).await?;
    let tally = Shared::default();
    let size = Size::new(4, 2, 2, 3);
    let mut networks = Vec::new();
    let mut providers = Vec::new();
    let mut tasks = Vec::new();
    for policy in [HandOver::default(), HandOver::Never, HandOver::default()] {
        let network = Network::default();
        let provider = network.provider_with(&backend, |config| config.hand_over = policy);
        let provider = provider.await?;
        for _ in 0..4 {
            tasks.push(tokio::spawn(dispatch(
                provider.clone(),
                size.code,
                tally.clone(),
            )));
            tasks.push(tokio::spawn(work(
                provider.clone(),
                size.activity,
                tally.clone(),
            )));
        }
        networks.push(network);
        providers.push(provider);
    }
    sleep(SECOND * 2).await;
    let mut state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut below = move |end: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % end
    };
    let accepted = Arc::new(Mutex::new(Vec::new()));
    let mut starts = Vec::new();
    for number in 0..30_u64 {
        let provider = providers[usize::try_from(below(3)).expect("few")].clone();
        let (accepted, after) = (accepted.clone(), below(4_000));
        starts.push(tokio::spawn(async move {
            sleep(ms(after)).await;
            let instance = format!("plain-2-4-{number}");
            let start = start_of(&instance, "Wait");
            if provider.enqueue_for_orchestrator(start, None).await.is_ok() {
                accepted.lock().expect("no panic").push(instance);
            }
        }));
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
                let _paused = provider.pause(&name, Extent::Alone, "ada").await;
                sleep(ms(below(100))).await;
                let _resumed = provider.resume(&name, Extent::Alone).await;
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
        let _resumed = reader.resume(name, Extent::Alone).await;
    }
    let begun = Instant::now();
    let mut left = accepted.clone();
    while !left.is_empty() {
        assert!(
            begun.elapsed() < SECOND * 200,
            "seed {seed}: {left:?} have not ended"
        );
        sleep(SECOND).await;
        let mut more = Vec::new();
        for name in left {
            let mut received = BTreeMap::<u64, u64>::new();
            for event in reader.read(&name).await.expect("a history") {
                if let (EventKind::ActivityCompleted { .. }, Some(of)) =
                    (&event.kind, event.source_event_id)
                {
                    *received.entry(of).or_default() += 1;
                }
            }
            assert!(
                received.values().all(|it| *it == 1),
                "seed {seed}, {name}: {received:?}"
            );
            if received.len() < 8 {
                more.push(name);
            }
        }
        left = more;
    }
    tasks.iter().for_each(JoinHandle::abort);
    {
        let tally = tally.lock().expect("no panic");
        let twice = tally.runs.values().filter(|it| **it > 1).count();
        println!(
            "seed {seed}: {} accepted, {twice} ran twice, {} of {} turns lost, {} acks failed",
            accepted.len(),
            tally.lost_turns,
            tally.turns,
            tally.failed_acks
        );
        assert!(
            tally.repeated.is_empty(),
            "seed {seed}: {:?}",
            tally.repeated
        );
    }
    backend.stop().await;
    Some(())
}

#[tokio::test(start_paused = true)]
async fn mixed_processes_in_bad_weather() {
    for seed in 0..4 {
        if weather(seed).await.is_none() {
            return;
        }
    }
}

/// Real time and several threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn by_many_threads() {
    let backend = Backend::start_with(|_| {}).await;
    let tally = Shared::default();
    let mut tasks = Vec::new();
    let mut providers = Vec::new();
    for _ in 0..2 {
        let provider = backend.provider().await;
        for _ in 0..8 {
            tasks.push(tokio::spawn(dispatch(
                provider.clone(),
                Duration::ZERO,
                tally.clone(),
            )));
            tasks.push(tokio::spawn(work(
                provider.clone(),
                Duration::ZERO,
                tally.clone(),
            )));
        }
        providers.push(provider);
    }
    let all = many("plain", 8, 6, 60);
    let starts = all
        .iter()
        .enumerate()
        .map(|(number, (_, it))| start(providers[number % 2].clone(), it.clone(), tally.clone()));
    let begun = Instant::now();
    futures::future::join_all(starts).await;
    let names: Vec<_> = all.iter().map(|(_, it)| it.clone()).collect();
    let is_over = all_ended(&tally, &names, SECOND * 100).await;
    tasks.iter().for_each(JoinHandle::abort);
    let took = begun.elapsed();
    let tally = std::mem::take(&mut *tally.lock().expect("no panic"));
    let twice = tally.runs.values().filter(|it| **it > 1).count();
    println!(
        "{took:?}: {} turns, {} lost, {twice} ran twice, {} acks failed",
        tally.turns, tally.lost_turns, tally.failed_acks
    );
    assert!(is_over);
    assert!(tally.repeated.is_empty(), "{:?}", tally.repeated);
    for (instance, completed) in &tally.completed {
        assert_eq!(*completed, 48, "{instance}");
    }
    backend.stop().await;
}

#[ignore = "takes a minute"]
#[tokio::test(start_paused = true)]
async fn mixed_processes_in_more_weather() {
    for seed in 100..125 {
        if weather(seed).await.is_none() {
            return;
        }
    }
}

/// A process dies in the middle; another one goes on.
#[expect(clippy::too_many_lines, reason = "the steps of one run")]
async fn death_in_the_middle(policy: HandOver, at: u64) -> Option<()> {
    let backend = Backend::start_in_simulated_time(|_| {}).await?;
    let tally = Shared::default();
    let size = Size::new(4, 2, 3, 4);
    let network = Network::default();
    let own = policy.clone();
    let provider = network.provider_with(&backend, |config| config.hand_over = own);
    let provider = provider.await?;
    network.slow_down(ANY, size.latency);
    let mut tasks = Vec::new();
    for _ in 0..4 {
        tasks.push(tokio::spawn(dispatch(
            provider.clone(),
            size.code,
            tally.clone(),
        )));
        tasks.push(tokio::spawn(work(
            provider.clone(),
            size.activity,
            tally.clone(),
        )));
    }
    sleep(SECOND * 2).await;
    let accepted = Arc::new(Mutex::new(Vec::new()));
    for number in 0..30_u64 {
        let (provider, accepted) = (provider.clone(), accepted.clone());
        tasks.push(tokio::spawn(async move {
            sleep(ms(number * 3)).await;
            let instance = format!("plain-2-3-{number}");
            let start = start_of(&instance, "Wait");
            if provider.enqueue_for_orchestrator(start, None).await.is_ok() {
                accepted.lock().expect("no panic").push(instance);
            }
        }));
    }
    sleep(ms(at)).await;
    network.swallow(ANY);
    tasks.iter().for_each(JoinHandle::abort);
    sleep(MOMENT).await;
    drop(provider);
    let ended_before: Vec<_> = {
        let mut tally = tally.lock().expect("no panic");
        tally.runs.clear();
        tally.accepted.iter().cloned().collect()
    };
    let second = site(&backend, &policy, &size, &tally).await;
    sleep(SECOND * 150).await;
    let accepted = accepted.lock().expect("no panic").clone();
    for instance in &accepted {
        let history = second.provider.read(instance).await.expect("a history");
        let mut received = BTreeMap::<u64, u64>::new();
        for event in history {
            if let (EventKind::ActivityCompleted { .. }, Some(of)) =
                (&event.kind, event.source_event_id)
            {
                *received.entry(of).or_default() += 1;
            }
        }
        assert!(
            received.len() == 6 && received.values().all(|it| *it == 1),
            "{policy:?} at {at}, {instance}: {received:?}"
        );
    }
    second.tasks.iter().for_each(JoinHandle::abort);
    let tally = std::mem::take(&mut *tally.lock().expect("no panic"));
    println!(
        "{policy:?} at {at}: {} accepted, {} ended before",
        accepted.len(),
        ended_before.len()
    );
    assert!(
        tally.repeated.is_empty(),
        "{policy:?} at {at}: {:?}",
        tally.repeated
    );
    backend.stop().await;
    Some(())
}

#[tokio::test(start_paused = true)]
async fn a_death_in_the_middle_loses_nothing_accepted() {
    for at in [9, 16, 23, 32, 41, 58, 77, 95] {
        for policy in [HandOver::Never, HandOver::default()] {
            if death_in_the_middle(policy, at).await.is_none() {
                return;
            }
        }
    }
}
