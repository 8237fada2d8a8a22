//! Virtual time and seeded randomness for everything in the process.
//!
//! The program defines `clock_gettime` and `getrandom` of the C library, and the linker prefers
//! these. `SystemTime`, `std::time::Instant`, the keys of hash maps and `Uuid::new_v4` then follow
//! Tokio's paused clock and the seed, also in dependencies. Only the thread that calls [`enter`]
//! sees virtual time and seeded numbers. A node's machine clock may be wrong: a task belongs to the
//! node on whose connection it sends. Works on Linux, where the standard library calls these functions.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use cdb_chaos::next_random;
use cdb_model::Timestamp;
use libc::{c_int, c_uint, clockid_t, size_t, ssize_t, timespec};
use tokio::task;
use tokio::time::Instant;

/// The start of every simulation: 2026-01-01, in seconds since the epoch.
const START: u64 = 1_767_225_600;

/// The value of the monotonic clock at the start, in seconds.
const UPTIME: u64 = 1_000_000;

#[derive(Clone, Copy)]
enum Clock {
    /// The clock of the machine.
    Real,
    /// Stands still, while the runtime is built and while this module reads Tokio's clock.
    Stopped,
    /// Follows Tokio's clock since this instant.
    Running(Instant),
}

thread_local! {
    static CLOCK: Cell<Clock> = const { Cell::new(Clock::Real) };
    /// How far the clock of the node that runs on this thread is ahead, in milliseconds.
    static AHEAD: Cell<i64> = const { Cell::new(0) };
    /// The machine clocks of nodes.
    static CLOCKS: RefCell<Clocks> = RefCell::default();
    /// The state of the random numbers.
    static RANDOM: Cell<u64> = const { Cell::new(0) };
}

/// The machine clocks that are wrong.
#[derive(Default)]
struct Clocks {
    /// How far the clock of each node is ahead, in milliseconds.
    ahead: BTreeMap<u32, i64>,
    /// The tasks that have sent a request, with their nodes.
    tasks: HashMap<task::Id, u32>,
}

/// The most tasks that are kept. Tasks that still run are added again when they send.
const MOST_TASKS: usize = 100_000;

/// Runs a simulation in virtual time on this thread. Call it once per process, on a thread that has
/// drawn no random number: the same seed then gives the same run.
pub(crate) fn enter<T>(seed: u64, simulation: impl Future<Output = T>) -> T {
    RANDOM.set(seed);
    CLOCK.set(Clock::Stopped);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime on this thread");
    let result = runtime.block_on(async {
        CLOCK.set(Clock::Running(Instant::now()));
        simulation.await
    });
    CLOCK.set(Clock::Stopped);
    drop(runtime);
    CLOCK.set(Clock::Real);
    result
}

/// Runs `work` with a wrong machine clock: `ahead` milliseconds ahead of the service's.
pub(crate) fn with_clock_ahead<T>(ahead: i64, work: impl FnOnce() -> T) -> T {
    let before = AHEAD.replace(ahead);
    let result = work();
    AHEAD.set(before);
    result
}

/// Sets the machine clock of a node.
pub(crate) fn set_clock(node: u32, ahead: i64) {
    CLOCKS.with_borrow_mut(|clocks| clocks.ahead.insert(node, ahead));
}

/// Notes that the current task belongs to a node.
pub(crate) fn note_task(node: u32) {
    let Some(id) = task::try_id() else { return };
    CLOCKS.with_borrow_mut(|clocks| {
        if clocks.ahead.is_empty() {
            return;
        }
        if clocks.tasks.len() == MOST_TASKS {
            clocks.tasks.clear();
        }
        clocks.tasks.insert(id, node);
    });
}

/// Returns how far the machine clock of the current task's node is ahead, in milliseconds.
fn ahead() -> i64 {
    let of_task = || {
        let id = task::try_id()?;
        let of_node = |clocks: &RefCell<Clocks>| {
            let clocks = clocks.try_borrow().ok()?;
            let node = clocks.tasks.get(&id)?;
            clocks.ahead.get(node).copied()
        };
        CLOCKS.try_with(of_node).ok().flatten()
    };
    match AHEAD.get() {
        0 => of_task().unwrap_or(0),
        ahead => ahead,
    }
}

/// Returns the time since the start of the simulation.
pub(crate) fn elapsed() -> Duration {
    match CLOCK.get() {
        Clock::Running(start) => start.elapsed(),
        Clock::Real | Clock::Stopped => Duration::ZERO,
    }
}

fn read_kernel_clock(clock: clockid_t, time: *mut timespec) -> c_int {
    // SAFETY: the kernel writes one `timespec` to the caller's pointer, as `clock_gettime` does.
    let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
    c_int::try_from(result).unwrap_or(-1)
}

/// # Safety
/// As for the function of the C library: `time` points to a `timespec`.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    let elapsed = match CLOCK.get() {
        Clock::Real => return read_kernel_clock(clock, time),
        Clock::Stopped => Duration::ZERO,
        Clock::Running(start) => {
            // Tokio reads this clock when it has no paused one.
            CLOCK.set(Clock::Stopped);
            let elapsed = start.elapsed();
            CLOCK.set(Clock::Running(start));
            elapsed
        }
    };
    let since = if clock == libc::CLOCK_REALTIME || clock == libc::CLOCK_REALTIME_COARSE {
        let ahead = ahead();
        let distance = Duration::from_millis(ahead.unsigned_abs());
        let start = Duration::from_secs(START) + elapsed;
        if ahead < 0 {
            start.saturating_sub(distance)
        } else {
            start + distance
        }
    } else {
        Duration::from_secs(UPTIME) + elapsed
    };
    // SAFETY: the caller's pointer is valid for a write.
    unsafe {
        time.write(timespec {
            tv_sec: libc::time_t::try_from(since.as_secs()).unwrap_or(0),
            tv_nsec: since.subsec_nanos().into(),
        });
    }
    0
}

/// # Safety
/// As for the function of the C library: `buffer` points to `length` writable bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut u8, length: size_t, flags: c_uint) -> ssize_t {
    if matches!(CLOCK.get(), Clock::Real) {
        // SAFETY: the kernel writes up to `length` bytes to the caller's buffer.
        let result = unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) };
        return ssize_t::try_from(result).unwrap_or(-1);
    }
    if length == 0 {
        // A question whether the function exists. It draws nothing.
        return 0;
    }
    // SAFETY: the caller's buffer has this length.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    let mut state = RANDOM.get();
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&next_random(&mut state).to_le_bytes()[..part.len()]);
    }
    RANDOM.set(state);
    ssize_t::try_from(length).unwrap_or(-1)
}

/// Returns the time from the start of the simulation to a time of the service.
pub(crate) fn since_start(time: Timestamp) -> Duration {
    time.since(Timestamp::from_secs(START))
}
