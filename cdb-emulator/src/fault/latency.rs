//! Latencies: a fixed delay, or a distribution.

use std::f64::consts::TAU;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::random::Random;
use crate::time::millis;

/// The maximum delay of a request. No client waits longer.
const LONGEST: Duration = Duration::from_secs(600);

/// The 99th percentile of the standard normal distribution.
const Z_99: f64 = 2.326_347_874_040_841;

/// The delay of a response. In JSON, times are milliseconds, with fractions.
///
/// ```
/// use std::time::Duration;
/// use cdb_emulator::Latency;
///
/// let like_azure = Latency::LogNormal { median: Duration::from_millis(3), p99: Duration::from_millis(12) };
/// # drop(like_azure);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub enum Latency {
    /// A constant delay.
    #[serde(rename = "fixedMs", with = "millis")]
    Fixed(Duration),
    /// A uniform distribution between two times.
    Uniform {
        /// The minimum.
        #[serde(rename = "minMs", with = "millis")]
        min: Duration,
        /// The maximum.
        #[serde(rename = "maxMs", with = "millis")]
        max: Duration,
    },
    /// An exponential distribution, like the wait for a random event.
    Exponential {
        /// The mean.
        #[serde(rename = "meanMs", with = "millis")]
        mean: Duration,
    },
    /// A log-normal distribution, like the latencies of real services.
    LogNormal {
        /// The median.
        #[serde(rename = "medianMs", with = "millis")]
        median: Duration,
        /// The 99th percentile.
        #[serde(rename = "p99Ms", with = "millis")]
        p99: Duration,
    },
}

impl From<Duration> for Latency {
    fn from(time: Duration) -> Self {
        Self::Fixed(time)
    }
}

impl Latency {
    /// No delay.
    pub(crate) const NONE: Self = Self::Fixed(Duration::ZERO);

    /// Draws a delay.
    pub(super) fn sample(&self, random: &mut Random) -> Duration {
        let seconds = match *self {
            Self::Fixed(time) => return time.min(LONGEST),
            Self::Uniform { min, max } => {
                let width = max.saturating_sub(min).as_secs_f64();
                min.as_secs_f64() + width * random.next()
            }
            Self::Exponential { mean } => mean.as_secs_f64() * -(1.0 - random.next()).ln(),
            Self::LogNormal { median, p99 } => {
                let sigma = (p99.as_secs_f64() / median.as_secs_f64()).ln() / Z_99;
                median.as_secs_f64() * (sigma * normal(random)).exp()
            }
        };
        Duration::try_from_secs_f64(seconds)
            .unwrap_or(LONGEST)
            .min(LONGEST)
    }

    /// Fails with the reason if the times are not a valid distribution.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (low, high) = match *self {
            Self::Fixed(time) | Self::Exponential { mean: time } => (time, time),
            Self::Uniform { min, max } => (min, max),
            Self::LogNormal { median, p99 } => {
                if median.is_zero() {
                    return Err("the median of a log-normal latency has to be above 0".to_owned());
                }
                (median, p99)
            }
        };
        if high < low {
            return Err(format!(
                "the upper time of a latency, {high:?}, is below its lower time, {low:?}"
            ));
        }
        if high > LONGEST {
            return Err("a latency is at most 10 minutes".to_owned());
        }
        Ok(())
    }
}

/// Draws from the standard normal distribution (Box–Muller).
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.next()).ln()).sqrt();
    radius * (TAU * random.next()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws 20,000 times; returns them sorted, in milliseconds, and their mean.
    fn times(latency: Latency) -> (Vec<f64>, f64) {
        let mut random = Random::new(7, 0);
        let mut times: Vec<f64> = (0..20_000)
            .map(|_| latency.sample(&mut random).as_secs_f64() * 1000.0)
            .collect();
        times.sort_by(f64::total_cmp);
        let mean = times.iter().sum::<f64>() / 20_000.0;
        (times, mean)
    }

    fn near(value: f64, wanted: f64) {
        assert!(
            (value / wanted - 1.0).abs() < 0.1,
            "{value} is not {wanted}"
        );
    }

    #[test]
    fn drawn_times_follow_the_distribution() {
        let ms = Duration::from_millis;
        let (uniform, mean) = times(Latency::Uniform {
            min: ms(10),
            max: ms(20),
        });
        near(mean, 15.0);
        assert!(uniform[0] >= 10.0 && uniform[19_999] <= 20.0);
        let (exponential, mean) = times(Latency::Exponential { mean: ms(8) });
        near(mean, 8.0);
        near(exponential[10_000], 8.0 * std::f64::consts::LN_2);
        let (log_normal, _) = times(Latency::LogNormal {
            median: ms(4),
            p99: ms(50),
        });
        near(log_normal[10_000], 4.0);
        near(log_normal[19_800], 50.0);
        assert_eq!(Latency::from(ms(3)).sample(&mut Random::new(7, 0)), ms(3));
    }
}
