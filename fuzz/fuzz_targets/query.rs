//! Query texts.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &str| cdb_emulator::fuzz_query(data));
