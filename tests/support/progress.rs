//! Measures progress in the stores of this process. A test waits as long as there is progress.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use cdb_emulator::{Emulator, OperationKind};

static EMULATORS: Mutex<Vec<Weak<Emulator>>> = Mutex::new(Vec::new());

/// The writes of a runtime that makes progress. Patches do not count: a process that is stuck
/// renews its locks with them, and a member sends heartbeats.
const WRITES: [OperationKind; 6] = [
    OperationKind::Create,
    OperationKind::Replace,
    OperationKind::Upsert,
    OperationKind::Delete,
    OperationKind::Batch,
    OperationKind::Bulk,
];

/// Counts the writes of an emulator from now on.
pub(crate) fn watch(emulator: &Arc<Emulator>) {
    let mut emulators = EMULATORS.lock().unwrap_or_else(PoisonError::into_inner);
    emulators.retain(|emulator| emulator.strong_count() > 0);
    emulators.push(Arc::downgrade(emulator));
}

/// Returns how many writes the emulators of this process have answered, or `None` if there is no
/// emulator. Writes that a test has reset do not count, so only a difference between two calls says
/// something: there was progress.
pub fn writes() -> Option<u64> {
    let emulators = EMULATORS.lock().unwrap_or_else(PoisonError::into_inner);
    let alive: Vec<Arc<Emulator>> = emulators.iter().filter_map(Weak::upgrade).collect();
    drop(emulators);
    let written = |emulator: &Arc<Emulator>| {
        let counts = emulator.requests().counts;
        WRITES.map(|kind| counts.get(&kind).copied().unwrap_or_default())
    };
    (!alive.is_empty()).then(|| alive.iter().flat_map(written).sum())
}
