//! Faults of one sort of requests while the others pass: writes that are throttled, queries that are
//! slow, and writes that are lost beside equal ones.

use std::time::Duration;

use cdb_emulator::{Effect, Fault as ServiceFault, Latency, OperationKind};

use crate::faults::{FIRST, Fault, FaultKind, Weather};
use crate::random::Random;

/// The longest time that a fault of one sort lasts.
const LONGEST: Duration = Duration::from_secs(240);

/// The time after which a client may send a throttled request again.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// A sort of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Writes,
    Queries,
    Points,
}

/// What happens to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// This percentage is throttled.
    Throttled { percent: u8 },
    /// All are slow.
    Slow { delay: Duration },
    /// This percentage is lost before the service.
    Lost { percent: u8 },
}

impl Sort {
    fn kinds(self) -> &'static [OperationKind] {
        match self {
            Self::Writes => &[
                OperationKind::Create,
                OperationKind::Replace,
                OperationKind::Upsert,
                OperationKind::Patch,
                OperationKind::Delete,
                OperationKind::Batch,
                OperationKind::Bulk,
            ],
            Self::Queries => &[OperationKind::Query],
            Self::Points => &[OperationKind::Read],
        }
    }
}

impl Trouble {
    /// Returns the fault of the service.
    pub(crate) fn of(self, sort: Sort) -> ServiceFault {
        let share = |percent| f64::from(percent) / 100.0;
        let fault = match self {
            Self::Throttled { percent } => {
                ServiceFault::with_probability(Effect::throttled(RETRY_AFTER), share(percent))
            }
            Self::Slow { delay } => ServiceFault::always(Effect::Delay(Latency::from(delay))),
            Self::Lost { percent } => {
                ServiceFault::with_probability(Effect::DropRequest, share(percent))
            }
        };
        let kinds = sort.kinds().iter();
        kinds.fold(fault, |fault, kind| fault.on(*kind))
    }
}

impl Fault {
    /// Draws the faults of single sorts of requests, apart from the others.
    pub(crate) fn draw_sorts(seed: u64, weather: Weather, time: Duration) -> Vec<Self> {
        let mut random = Random::new(seed, "sorts of requests");
        let seconds = Duration::from_secs;
        let longest_pause = match weather {
            Weather::Calm => seconds(2 * 3600),
            Weather::Storm => seconds(240),
        };
        let mut faults = Vec::new();
        let mut at = FIRST + random.duration(Duration::ZERO..seconds(60));
        while at < time {
            let (sort, trouble) = draw(&mut random);
            let lasting = random.duration(seconds(10)..LONGEST);
            let kind = FaultKind::Sort {
                sort,
                trouble,
                lasting,
            };
            faults.push(Self { at, kind });
            at += lasting / 2 + random.duration(seconds(1)..longest_pause);
        }
        faults
    }
}

fn draw(random: &mut Random) -> (Sort, Trouble) {
    let throttled = |random: &mut Random| Trouble::Throttled {
        percent: [50, 70, 90][random.below(3)],
    };
    let slow = |random: &mut Random| Trouble::Slow {
        delay: random.duration(Duration::from_millis(500)..Duration::from_secs(5)),
    };
    match random.below(10) {
        0..=2 => (Sort::Writes, throttled(random)),
        3..=5 => (Sort::Queries, slow(random)),
        6 => (Sort::Queries, throttled(random)),
        7 => (Sort::Points, throttled(random)),
        _ => {
            let percent = [5, 20, 40][random.below(3)];
            (Sort::Writes, Trouble::Lost { percent })
        }
    }
}
