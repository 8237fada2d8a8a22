//! The size, the settings and the weather of a cluster: drawn from the seed, or fixed.

use std::time::Duration;

use clap::ValueEnum;

use crate::faults::Weather;
use crate::node::{NodeConfig, Pace};
use crate::random::Random;

/// The shortest retention: longer than clients need to see how an orchestration ended.
const SHORTEST_RETENTION: Duration = Duration::from_secs(1800);

/// The longest time between two waves of orchestrations on the busy nodes of a fixed profile: an
/// orchestration every six seconds.
const BUSY_WAVE: Duration = Duration::from_secs(120);

/// The size and the settings of a cluster, drawn from the seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Profile {
    pub(crate) nodes: usize,
    /// The number of nodes that share containers without work.
    pub(crate) idle: usize,
    pub(crate) partitions: u32,
    /// The time to the service and back, besides the latency of a region.
    pub(crate) distance: Duration,
    pub(crate) node: NodeConfig,
    pub(crate) weather: Weather,
    /// The longest time between two waves of orchestrations.
    pub(crate) wave: Duration,
    /// Whether single partitions fail over.
    pub(crate) partition_failover: bool,
    /// Whether a member takes no work, like a node whose dispatchers are all busy.
    pub(crate) bystander: bool,
}

/// A cluster and a load that are the same in every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FixedProfile {
    /// Four nodes that share all workloads, and four that wait for work, all on one partition
    Idle4busy4,
    /// The same with idle polls and heartbeats every ten seconds
    #[value(name = "idle4busy4-slow")]
    Idle4busy4Slow,
}

impl Profile {
    /// Draws the profile of a run with faults for this time.
    pub(crate) fn draw(seed: u64, time: Duration) -> Self {
        let mut random = Random::new(seed, "profile");
        let nodes = 1 + random.below(8);
        let partitions = [1, 1, 2, 4, 8][random.below(5)];
        let weather = [Weather::Calm, Weather::Storm][random.below(2)];
        Self {
            nodes,
            idle: 0,
            partitions,
            distance: Duration::ZERO,
            weather,
            wave: weather.wave(),
            // The other seeds keep the runs that they had without.
            partition_failover: seed % 4 == 2,
            bystander: nodes > 1 && Random::new(seed, "bystander").chance(40),
            node: NodeConfig {
                members: nodes > 1 && random.chance(60),
                // Short, so that much is purged while the faults last.
                idle: false,
                pace: [Pace::Default, Pace::Slow][random.below(2)],
                retention: (time / [4, 10, 20][random.below(3)]).max(SHORTEST_RETENTION),
            },
        }
    }
}

impl Profile {
    /// Draws the profile of a run with limits alone: up to 50 nodes, near the service or in another continent.
    pub(crate) fn draw_limited(seed: u64, time: Duration) -> Self {
        let mut random = Random::new(seed, "profile of limits");
        let nodes = [1, 2, 3, 8, 20, 50][random.below(6)];
        let distance = [0, 20, 150, 400][random.below(4)];
        let drawn = Self::draw(seed, time);
        Self {
            nodes,
            distance: Duration::from_millis(distance),
            bystander: nodes > 1 && drawn.bystander,
            node: NodeConfig {
                members: nodes > 1 && drawn.node.members,
                ..drawn.node
            },
            ..drawn
        }
    }
}

impl FixedProfile {
    pub(crate) fn profile(self) -> Profile {
        let pace = match self {
            Self::Idle4busy4 => Pace::Default,
            Self::Idle4busy4Slow => Pace::Slow,
        };
        Profile {
            nodes: 8,
            idle: 4,
            partitions: 1,
            distance: Duration::ZERO,
            weather: Weather::Calm,
            wave: BUSY_WAVE,
            partition_failover: false,
            bystander: false,
            node: NodeConfig {
                members: true,
                retention: SHORTEST_RETENTION * 2,
                idle: false,
                pace,
            },
        }
    }
}
