//! Partition key headers.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &str| cdb_emulator::fuzz_partition_key(data));
