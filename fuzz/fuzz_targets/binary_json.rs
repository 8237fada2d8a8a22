//! Bodies in binary JSON.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| cdb_emulator::fuzz_binary_json(data));
