#![allow(dead_code, unused_imports)]
#[path = "../suite/harness.rs"]
mod harness;
#[path = "../suite/network.rs"]
mod network;
#[path = "../suite/several.rs"]
mod several;
#[path = "../../cdb-coordination/tests/silence/partition.rs"]
mod silence;
#[path = "../suite/warnings.rs"]
mod warnings;
#[path = "../suite/work_items.rs"]
mod work_items;
#[path = "../suite/partitions.rs"]
mod partitions;
#[path = "../suite/breaker.rs"]
mod breaker;
