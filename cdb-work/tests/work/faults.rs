//! Lost answers and refused requests: no message is lost or duplicated. `rebalancing` has faults and
//! members that end.

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_work::Settlement;

use crate::test_env::{TestEnv, applied, config, message, next};

#[tokio::test(start_paused = true)]
async fn a_lost_answer_stores_once_and_completes_once() {
    let env = TestEnv::start().await;
    let emulator = or_skip!(env.emulator(), "needs the emulator");
    let work = env.open(config()).await;
    let now = work.immediate();
    let lost = || Fault::once(Effect::DropAnswer).on(OperationKind::Batch);
    emulator.inject(lost());
    let stored = now.store(message("a", 1)).await.unwrap();
    assert_eq!(
        stored,
        Settlement::Stored { sequence: 1 },
        "stored by this coordinator, not a duplicate"
    );
    let claimed = next(&work).await;
    emulator.inject(lost());
    assert_eq!(
        now.report(applied(claimed)).await.unwrap(),
        Settlement::Done
    );
    assert_eq!(env.applied().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_never_arrived_is_sent_again() {
    let env = TestEnv::start().await;
    let emulator = or_skip!(env.emulator(), "needs the emulator");
    let work = env.open(config()).await;
    let after = Fault::once(Effect::StatusAfterEffect { status: 408 }).on(OperationKind::Batch);
    let before = Fault::once(Effect::error(408, 0));
    for fault in [after, before.on(OperationKind::Batch)] {
        emulator.inject(fault);
    }
    let now = work.immediate();
    for n in 1..=2 {
        let stored = now.store(message("a", n)).await.unwrap();
        assert_eq!(stored, Settlement::Stored { sequence: n as u64 });
    }
}
