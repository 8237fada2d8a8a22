//! What goes wrong in a run: drawn from the seed, as data, so that a failing run can be repeated
//! with fewer faults.

use std::fmt;
use std::time::Duration;

use crate::excuses::Scope;
use crate::random::Random;
use crate::weathers::{Sort, Trouble};

/// The first fault comes after the cluster has started.
pub(crate) const FIRST: Duration = Duration::from_secs(120);

/// The time after a fault of all requests in which its delays may go on: backoffs end, and lost
/// locks expire.
const RECOVERY: Duration = Duration::from_secs(30);

/// The longest time that a long fault lasts. A client gives up after five minutes.
const LONGEST: Duration = Duration::from_secs(240);

/// The longest pause between two long faults in a storm.
const LONG_PAUSE: Duration = Duration::from_secs(300);

/// The regions of the account, the write region first.
pub(crate) const REGIONS: [&str; 2] = ["West", "East"];

/// The longest time that the only node of a cluster is down.
pub(crate) const LONGEST_OUTAGE: Duration = Duration::from_secs(60);

/// How close together faults are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Hours pass between most faults.
    Calm,
    /// A fault every half minute, under load.
    Storm,
}

impl Weather {
    /// Returns the longest time between two faults. Half of all faults follow the one before much
    /// sooner.
    fn pause(self) -> Duration {
        match self {
            Self::Calm => Duration::from_secs(6 * 3600),
            Self::Storm => Duration::from_secs(90),
        }
    }

    /// Returns the longest time that a fault lasts.
    fn lasting(self) -> Duration {
        match self {
            Self::Calm => Duration::from_secs(300),
            Self::Storm => Duration::from_secs(60),
        }
    }

    /// Returns the longest time between two waves of orchestrations.
    pub(crate) fn wave(self) -> Duration {
        match self {
            Self::Calm => Duration::from_secs(3600),
            Self::Storm => Duration::from_secs(20),
        }
    }
}

/// A fault and its time since the start.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) at: Duration,
    pub(crate) kind: FaultKind,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FaultKind {
    /// A node is killed, and started again later, with a machine's clock that is wrong.
    Kill {
        node: usize,
        down: Duration,
        clock_ahead: i64,
    },
    /// The machine clock of a node is set while the node runs.
    Clock { node: usize, ahead: i64 },
    /// A node stands still: its requests arrive when it goes on.
    Pause { node: usize, lasting: Duration },
    /// A node reaches nothing.
    Cut { node: usize, lasting: Duration },
    /// Requests to one physical partition fail or are slow.
    SickPartition {
        sickness: Sickness,
        lasting: Duration,
    },
    /// This percentage of requests fails, in five ways.
    Requests { percent: u8, lasting: Duration },
    /// This percentage of requests arrives twice.
    Duplicates { percent: u8, lasting: Duration },
    /// Replicas lag behind by up to this time.
    Lag { behind: Duration, lasting: Duration },
    /// A physical partition is sick in the other region, and its writes move to this one after a
    /// while.
    PartitionFailover {
        to: &'static str,
        sickness: Sickness,
        outage: Duration,
        lasting: Duration,
    },
    /// The write region moves.
    Failover { document_after: Duration },
    /// A physical partition is split, which takes this long.
    Split { lasting: Duration },
    /// The service refuses all rights.
    Rights { lasting: Duration },
    /// Queries of single logical partitions get their answers late, so that a load outlasts the
    /// lock of its turn. On one node, or on all.
    SlowLoads {
        node: Option<usize>,
        delay: Duration,
        lasting: Duration,
    },
    /// The service throttles the creation of documents, which costs the most request units.
    Throttled { lasting: Duration },
    /// Requests of one sort are in trouble: those to one physical partition of each container, or
    /// all if they are lost.
    Sort {
        sort: Sort,
        trouble: Trouble,
        lasting: Duration,
    },
}

/// What is wrong with a physical partition.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sickness {
    Throttled,
    Unavailable,
    Slow,
    Silent,
}

impl Fault {
    /// Returns until when the fault can delay work that a healthy node does, since the start.
    /// `None` if other nodes go on without delay.
    pub(crate) fn delays_until(&self, nodes: usize) -> Option<Duration> {
        let lasting = match self.kind {
            FaultKind::Clock { .. } | FaultKind::Duplicates { .. } => return None,
            FaultKind::Kill { down, .. } if nodes == 1 => down.min(LONGEST_OUTAGE),
            FaultKind::Pause { lasting, .. } | FaultKind::Cut { lasting, .. } if nodes == 1 => {
                lasting.min(LONGEST_OUTAGE)
            }
            FaultKind::Kill { .. } | FaultKind::Pause { .. } | FaultKind::Cut { .. } => {
                return None;
            }
            FaultKind::Failover { document_after } => document_after * 3,
            FaultKind::SickPartition { lasting, .. }
            | FaultKind::PartitionFailover { lasting, .. }
            | FaultKind::Requests { lasting, .. }
            | FaultKind::Lag { lasting, .. }
            | FaultKind::Split { lasting }
            | FaultKind::Rights { lasting }
            | FaultKind::SlowLoads { lasting, .. }
            | FaultKind::Sort { lasting, .. }
            | FaultKind::Throttled { lasting } => lasting,
        };
        Some(self.at + lasting)
    }

    /// Draws the faults that last longer than locks, claims and leases, apart from the others.
    pub(crate) fn draw_long(
        seed: u64,
        nodes: usize,
        weather: Weather,
        time: Duration,
    ) -> Vec<Self> {
        let mut random = Random::new(seed, "long faults");
        let pause = match weather {
            Weather::Calm => LONG_PAUSE * 12,
            Weather::Storm => LONG_PAUSE,
        };
        let mut faults = Vec::new();
        let mut at = FIRST + random.duration(Duration::ZERO..LONG_PAUSE);
        while at < time {
            let kind = FaultKind::draw_long(&mut random, nodes);
            faults.push(Self { at, kind });
            at += LONGEST + random.duration(Duration::from_secs(60)..pause);
        }
        faults
    }

    /// Draws the failovers of single partitions, apart from the other faults.
    pub(crate) fn draw_partition_failovers(
        seed: u64,
        weather: Weather,
        time: Duration,
    ) -> Vec<Self> {
        let mut random = Random::new(seed, "partition failovers");
        let seconds = Duration::from_secs;
        let mut faults = Vec::new();
        let mut at = FIRST;
        while at < time {
            let outage = random.duration(Duration::ZERO..seconds(60));
            let kind = FaultKind::PartitionFailover {
                to: REGIONS[random.below(2)],
                sickness: [Sickness::Unavailable, Sickness::Silent][random.below(2)],
                outage,
                lasting: outage + random.duration(seconds(1)..seconds(120)),
            };
            faults.push(Self { at, kind });
            at += random.duration(seconds(1)..weather.pause());
        }
        faults
    }

    /// Draws the faults of a run.
    pub(crate) fn draw(seed: u64, nodes: usize, weather: Weather, time: Duration) -> Vec<Self> {
        let mut random = Random::new(seed, "faults");
        let mut at = FIRST;
        let mut faults = Vec::new();
        while at < time {
            let kind = FaultKind::draw(&mut random, nodes, weather.lasting());
            faults.push(Self { at, kind });
            let pause = weather.pause();
            let most = if random.chance(50) { pause / 60 } else { pause };
            at += random.duration(Duration::from_secs(1)..most);
        }
        faults
    }
}

impl FaultKind {
    /// Returns what a fault of the service can delay, and for how long. `None` for those of nodes
    /// and partitions, which the cluster chooses.
    pub(crate) fn delays(self) -> Option<(Scope, Duration)> {
        let lasting = match self {
            Self::Requests { lasting, .. }
            | Self::Duplicates { lasting, .. }
            | Self::Lag { lasting, .. }
            | Self::Split { lasting }
            | Self::Rights { lasting }
            | Self::Throttled { lasting }
            | Self::Sort {
                trouble: Trouble::Lost { .. },
                lasting,
                ..
            } => lasting,
            Self::Failover { document_after } => document_after * 3,
            Self::SlowLoads { lasting, .. } => return Some((Scope::Loads, lasting)),
            Self::Kill { .. }
            | Self::Clock { .. }
            | Self::Pause { .. }
            | Self::Cut { .. }
            | Self::PartitionFailover { .. }
            | Self::SickPartition { .. }
            | Self::Sort { .. } => return None,
        };
        Some((Scope::Everything, lasting + RECOVERY))
    }

    fn draw_long(random: &mut Random, nodes: usize) -> Self {
        let node = random.below(nodes);
        let seconds = Duration::from_secs;
        let lasting = random.duration(seconds(60)..LONGEST);
        match random.below(6) {
            0 | 1 => Self::SlowLoads {
                node: (nodes > 1 && random.chance(50)).then_some(node),
                delay: random.duration(seconds(6)..seconds(9)),
                lasting: LONGEST + lasting,
            },
            2 | 3 => Self::SickPartition {
                sickness: [Sickness::Silent, Sickness::Silent, Sickness::Slow][random.below(3)],
                lasting,
            },
            4 => Self::Throttled { lasting },
            _ => Self::Kill {
                node,
                down: random.duration(seconds(20)..seconds(60)),
                clock_ahead: 0,
            },
        }
    }

    fn draw(random: &mut Random, nodes: usize, longest: Duration) -> Self {
        let seconds = Duration::from_secs;
        let node = random.below(nodes);
        let lasting = random.duration(seconds(1)..longest);
        match random.below(15) {
            0..=3 => Self::Kill {
                node,
                down: random.duration(seconds(1)..longest * 6),
                clock_ahead: draw_clock(random),
            },
            4 | 5 => Self::Pause { node, lasting },
            6 => Self::Cut { node, lasting },
            7 => Self::SickPartition {
                sickness: [
                    Sickness::Throttled,
                    Sickness::Unavailable,
                    Sickness::Slow,
                    Sickness::Silent,
                ][random.below(4)],
                lasting: lasting.min(seconds(90)),
            },
            8 => Self::Requests {
                percent: [1, 5, 20][random.below(3)],
                lasting,
            },
            9 => Self::Duplicates {
                percent: [5, 50][random.below(2)],
                lasting,
            },
            10 => Self::Lag {
                behind: random.duration(seconds(1)..seconds(10)),
                lasting,
            },
            11 => Self::Failover {
                document_after: random.duration(seconds(0)..seconds(5)),
            },
            12 => Self::Split {
                lasting: random.duration(seconds(0)..seconds(20)),
            },
            13 => Self::Clock {
                node,
                ahead: draw_clock(random),
            },
            _ => Self::Rights {
                lasting: random.duration(seconds(1)..seconds(20)),
            },
        }
    }
}

/// Draws how far a machine clock is ahead, in milliseconds.
fn draw_clock(random: &mut Random) -> i64 {
    i64::try_from(random.below(60_000)).unwrap_or(0) - 30_000
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:10.0} s  {:?}", self.at.as_secs_f64(), self.kind)
    }
}
