//! Bodies of batches.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| cdb_emulator::fuzz_batch(data));
