//! The orchestrations of a run, besides those of the chaos suite, and their clients.

use std::sync::Arc;
use std::time::Duration;

use cdb_chaos::{Ended, Job, KINDS, follow};
use duroxide::Client;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::random::Random;

/// The longest time that an orchestration of a wave may take while a healthy node lives.
const BOUND: Duration = Duration::from_secs(1800);

/// Starts waves of orchestrations, one of each kind, until `until`, and follows each to its end.
pub(crate) async fn waves(client: Arc<Client>, seed: u64, until: Instant) -> Vec<Ended> {
    let mut random = Random::new(seed, "waves");
    let pause = [10, 60, 600, 3600][random.below(4)];
    let mut following = JoinSet::new();
    let mut number = 0;
    let mut ended = Vec::new();
    while Instant::now() < until {
        for _ in KINDS {
            let (client, job) = (client.clone(), Job::new(number));
            following.spawn(async move { follow(&client, job, BOUND).await });
            number += 1;
        }
        sleep(random.duration(Duration::from_secs(1)..Duration::from_secs(pause * 2))).await;
        while let Some(one) = following.try_join_next() {
            ended.push(one.expect("a client does not panic"));
        }
    }
    while let Some(one) = following.join_next().await {
        ended.push(one.expect("a client does not panic"));
    }
    ended
}
