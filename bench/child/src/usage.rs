//! The resource usage of a process, from /proc on Linux; zero elsewhere.

use crate::job::Usage;

/// Ticks per second of /proc/self/stat: always 100 on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Returns this process's usage so far.
pub fn of_this_process() -> Usage {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let megabytes = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        kilobytes.unwrap_or_default() / 1024.0
    };
    Usage {
        cpu: cpu_milliseconds().unwrap_or_default(),
        memory: megabytes("VmRSS:"),
        peak: megabytes("VmHWM:"),
    }
}

/// User and system time, the 14th and 15th field; the second field is a name in parentheses that
/// may hold spaces.
fn cpu_milliseconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) * 1000.0 / TICKS_PER_SECOND)
}
