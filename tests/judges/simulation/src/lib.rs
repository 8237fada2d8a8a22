//! Simulation: weeks of a cluster's life in virtual time, repeatable from a seed.
//!
//! The components are real: duroxide's runtime, the provider, the client, the service of the
//! emulator. Replaced are time, randomness, sockets and threads. One process runs one seed on one
//! thread, and the same seed gives the same run. docs/chaos.md has the results.
//!
//! | part | drawn from the seed |
//! |---|---|
//! | cluster | 1 to 8 nodes, 1 to 8 physical partitions, with or without membership, retention |
//! | weather | calm: hours between most faults; or a storm: a fault every half minute, under load |
//! | workloads | waves of ten kinds of orchestration; eternal orchestrations; timers of hours and days; results of 3 MB; streams; activities longer than their locks; leases, outbox and inbox (`--only bank`); transactional activities (`--only effects`); limits of activities (`--only limited`: caps of 1 to 50 and rates of 0.1 to 20 a second on 1 to 50 nodes, up to 400 ms from the service); pauses of instances (`--only paused`), by two operators who stand still for up to 5 minutes, with circles of children |
//! | blocked work, operators | instances that a dead provider holds, starts that no node can decode, streams whose first message fails for good; deleted parents, instances that are started again while others delete them |
//! | faults of nodes | killed and restarted with a clock up to 30 s wrong; the clock set while the node runs; paused; cut off |
//! | faults of the service | a physical partition that throttles, refuses, is slow or silent; 1 to 20 % of requests failing in five ways; requests that arrive twice; lagging replicas; failovers, of single partitions too; splits; refused rights; loads of 6 to 9 s |
//!
//! The judges: each orchestration ends once, with the right result, within 30 minutes of being due, or two
//! in calm weather, and the time of its work. The bounds B and L of docs/liveness.md hold at every moment,
//! less the time of faults that delay the item. Streams keep their order. Limits are never exceeded, and 85
//! % of them (half, with fewer permits than nodes) are used while anything waits and no fault explains
//! less. Counters and balances add up. Commands of operators end, and succeed when repeated. Every minute,
//! over the whole store: what is withheld has a paused instance, locks end, intents have a target and a
//! deadline. In the end no document is left, and no task of a killed node.

mod args;
mod bounds;
mod caller;
mod cluster;
mod command;
mod counted;
mod excuses;
mod faults;
mod guarded;
mod judge;
mod judges;
mod network;
mod node;
mod operators;
mod profile;
mod random;
mod run;
mod scenario;
mod seeds;
mod shrink;
mod stall;
mod trace;
mod virtual_time;
mod weathers;
mod workload;
mod workloads;

pub use command::command;
pub use scenario::{NodeSettings, Scenario, ScenarioNode};
