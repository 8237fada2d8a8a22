//! A partition whose writes are slow goes on at the rate that their latency allows, and its turns and
//! activities keep their dispatchers. Time is simulated.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::network::What;
use super::site::Site;
use crate::network::WRITE;
use crate::warnings::Warnings;

const SICK: &[&str] = &["3"];
const CONCURRENCY: usize = 2;

/// As many as the turns and activities that may have begun before the first slow answer.
const HANDFUL: usize = 2 * CONCURRENCY;

/// Runs instances of a partition whose writes take `delay`, and no others. Returns the time until all have
/// completed, and the commits and ends of activities that went on without their dispatchers.
async fn run(delay: Duration, instances: usize, rounds: u32) -> Option<(Duration, usize, usize)> {
    let warnings = Warnings::default();
    let _logged = tracing::subscriber::set_default(warnings.clone());
    let site = Site::open(1, (CONCURRENCY, CONCURRENCY), 1).await?;
    sleep(Duration::from_millis(1_500)).await;
    let sick = site.within(SICK)[..instances].to_vec();
    let late = What::AnsweredLate(delay);
    site.rules.add(SICK, &site.all, WRITE, 1.0, late);
    let begun = Instant::now();
    for instance in &sick {
        site.start(instance, "Busy", &rounds.to_string()).await;
    }
    let limit = Duration::from_secs(3_600);
    let took = site.until_completed(&sick, limit).await;
    assert!(took.is_some(), "{delay:?}: some have not completed");
    let took = begun.elapsed();
    site.close().await;
    let commits = warnings
        .with("a commit goes on without its dispatcher")
        .len();
    let ends = warnings
        .with("an activity is ended without its worker")
        .len();
    Some((took, commits, ends))
}

/// A dispatcher does not wait for the first slow lock, which goes on without it: its answer tells how long
/// the partition takes, and those after it are awaited.
#[tokio::test(start_paused = true)]
async fn turns_of_a_slow_partition_keep_their_dispatchers_and_go_on() {
    const INSTANCES: usize = 4;
    const ROUNDS: u32 = 2;
    for seconds in [1, 3] {
        let delay = Duration::from_secs(seconds);
        let (took, commits, ends) = or_skip!(run(delay, INSTANCES, ROUNDS).await);
        println!("{delay:?}: {took:?}; without dispatchers {commits} commits, {ends} ends");
        assert!(commits + ends <= HANDFUL, "{delay:?}: {commits}, {ends}");
        // The locks, their renewals and the commits of the turns, one after the other.
        let most = Duration::from_secs(20) + delay * 80;
        assert!(took <= most, "{delay:?}: {took:?}");
    }
}
