//! How requests travel: delays with jitter, lost requests, lost answers, late duplicates.

use std::time::Duration;

use super::random::Random;

/// The time after which a caller gives up.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);

/// The network between runtimes and the service.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    /// The mean time of a request and its answer.
    pub(crate) round_trip: Duration,
    /// The requests in 1,000 that are lost, or whose answers are lost.
    pub(crate) lost: u64,
    /// The requests in 1,000 that arrive once more, later.
    pub(crate) late: u64,
}

/// What happens to one request.
#[derive(Clone, Debug)]
pub(crate) struct Journey {
    /// The times until the request arrives: none if it is lost, two if it is duplicated.
    pub(crate) arrives_after: Vec<Duration>,
    /// The time from the service to the caller; `None` if the answer is lost.
    pub(crate) answers_after: Option<Duration>,
}

impl Network {
    /// Returns the time of one way: half a round trip, from 60 to 160 %.
    pub(crate) fn way(&self, random: &mut Random) -> Duration {
        random.between(self.round_trip * 3 / 10, self.round_trip * 7 / 10)
            + random.between(Duration::ZERO, self.round_trip / 10)
    }

    pub(crate) fn journey(&self, random: &mut Random) -> Journey {
        let is_lost = random.chance(self.lost);
        let reaches = !is_lost || random.chance(500);
        let mut arrives_after: Vec<_> = reaches.then(|| self.way(random)).into_iter().collect();
        // Half of the lost requests arrive late: a gateway has kept them.
        if random.chance(self.late) || !reaches && random.chance(500) {
            arrives_after.push(random.between(Duration::from_millis(500), Duration::from_secs(20)));
        }
        Journey {
            arrives_after,
            answers_after: (!is_lost).then(|| self.way(random)),
        }
    }
}
