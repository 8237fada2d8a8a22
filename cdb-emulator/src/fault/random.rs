//! Random numbers that a seed reproduces.

/// A reproducible sequence of random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// Returns the sequence of one stream. Each fault has its own stream, so that other faults do
    /// not shift it.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self {
            state: mix(seed) ^ mix(stream.wrapping_mul(GOLDEN)),
        }
    }

    /// Returns a number from 0 (inclusive) to 1 (exclusive).
    pub(crate) fn next(&mut self) -> f64 {
        self.state = self.state.wrapping_add(GOLDEN);
        let high = u32::try_from(mix(self.state) >> 32).unwrap_or_default();
        f64::from(high) / 4_294_967_296.0
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
