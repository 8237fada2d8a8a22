//! Transcribes `provider/src/operate/limits/share.rs`, lines 21 to 113: the division of a limit among runtimes.

use std::time::Duration;

use crate::machine::{Key, Rule, Time};

/// `timing.rs`: `PERMITS_TERM`, `PERMITS_ROTATE`.
const TERM: Duration = Duration::from_secs(15);
const ROTATE: Duration = Duration::from_secs(30);

/// `stored/documents/limits.rs`: what a runtime holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Holder {
    pub(crate) runtime: Key,
    pub(crate) running: u32,
    pub(crate) wanted: u32,
    /// Thousandths of a start per second.
    pub(crate) starts: u32,
    pub(crate) until: Time,
}

/// The document of a key.
pub(crate) type Permits = Vec<Holder>;

/// `limiter.rs`, lines 79 to 85.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Demand {
    pub(super) rule: Rule,
    pub(crate) running: u32,
    pub(super) waiting: u32,
}

/// Lines 14 to 19.
#[derive(Clone, Debug)]
pub(super) struct Division {
    pub(super) permits: Permits,
    pub(super) may_run: u32,
}

/// Lines 25 to 62.
pub(super) fn divide(before: &Permits, runtime: &Key, demand: &Demand, now: Time) -> Division {
    let mut holders = before.clone();
    holders.retain(|holder| holder.runtime != *runtime && holder.until > now);
    let wanted = demand.running.saturating_add(demand.waiting);
    let mut may_run = 0;
    if wanted > 0 {
        let held =
            |count: fn(&Holder) -> u32| holders.iter().map(count).fold(0, u32::saturating_add);
        let wants = |most: u32, of: &dyn Fn(&Holder) -> u32, own: u32| {
            let others = holders.iter().map(|holder| (&*holder.runtime, of(holder)));
            let wants: Vec<_> = others.chain([(&**runtime, own)]).collect();
            fair_share(most, runtime, &wants, now)
        };
        let running = demand.rule.running.map_or(0, |most| {
            let most = u32::try_from(most).unwrap_or(u32::MAX);
            let share = wants(most, &|holder| holder.wanted, wanted);
            let left = most.saturating_sub(held(|holder| holder.running));
            may_run = share.min(left);
            may_run.max(demand.running)
        });
        let starts = demand.rule.interval.map_or(0, |interval| {
            let most = milli(interval);
            let share = wants(most, &|_| most, most);
            share.min(most.saturating_sub(held(|holder| holder.starts)))
        });
        holders.push(Holder {
            runtime: runtime.clone(),
            running,
            wanted,
            starts,
            until: now + TERM,
        });
    }
    Division {
        permits: holders,
        may_run,
    }
}

/// Lines 64 to 74.
pub(super) fn own<'a>(permits: &'a Permits, runtime: &Key) -> Option<&'a Holder> {
    permits.iter().find(|holder| holder.runtime == *runtime)
}

pub(super) fn is_alone(permits: &Permits, runtime: &Key) -> bool {
    permits.iter().all(|holder| holder.runtime == *runtime)
}

/// Lines 81 to 89, with the rate as the time between two starts.
fn milli(interval: Duration) -> u32 {
    let milli = 1_000_000_000 / interval.as_micros().max(1);
    u32::try_from(milli).unwrap_or(u32::MAX).max(1)
}

/// Lines 94 to 113.
fn fair_share(most: u32, runtime: &str, wants: &[(&str, u32)], now: Time) -> u32 {
    let turn = now.as_millis() / ROTATE.as_millis();
    let place = |name: &str| hash(&format!("{turn}:{name}"));
    let mut wants: Vec<_> = wants.to_vec();
    let count = u32::try_from(wants.len()).unwrap_or(u32::MAX);
    let most_of_one = most / count.max(1) + 1;
    wants.sort_by_key(|(name, wanted)| {
        ((*wanted).min(most_of_one), place(name), (*name).to_owned())
    });
    let (mut left, mut own) = (most, 0);
    for (at, (name, wanted)) in wants.iter().enumerate() {
        let others = u32::try_from(wants.len() - at).unwrap_or(u32::MAX);
        let share = (*wanted).min(left / others);
        left -= share;
        if *name == runtime {
            own = share;
        }
    }
    own + left / count.max(1)
}

/// Stands for `dispatch_slot`, a hash of the name: FNV-1a, mixed.
fn hash(name: &str) -> u64 {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325, fold);
    (hash ^ (hash >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}
