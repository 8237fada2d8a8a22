//! Races between queues and replay, in simulated time: the functions wait for delays of a second or
//! two.

use cdb_tests::Backend;
use duroxide::provider_validation::race_replay as promise;

macro_rules! promises {
    ($($name:ident => $function:ident($($argument:expr)?)),* $(,)?) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            let backend = Backend::start_simulated().await;
            promise::$function(&backend $(, $argument)?).await;
            backend.stop().await;
        }
    )*};
}

promises! {
    duplicate_start_preserves_pinned_handler => test_duplicate_start_preserves_pinned_handler(),
    continue_as_new_unregistered_backoff => test_continue_as_new_unregistered_backoff(),
    continue_as_new_poisoned_successor_is_own_execution => test_continue_as_new_poisoned_successor_is_own_execution(),
    continue_as_new_duplicate_start => test_continue_as_new_duplicate_start(),
    queue_race_cancellation_replay => test_queue_race_cancellation_replay(),
    continue_as_new_queue_race_replay => test_continue_as_new_queue_race_replay(),
    queue_replay_version_stamp_roundtrip => test_queue_replay_version_stamp_roundtrip(),
    positional_wait_race_replay => test_positional_wait_race_replay(),
    legacy_queue_race_decision_preserved => test_legacy_queue_race_decision_preserved(),
    continue_as_new_transition_delivery_with_the_older_stamp => test_continue_as_new_transition_delivery("0.1.30"),
    continue_as_new_transition_delivery_with_the_newer_stamp => test_continue_as_new_transition_delivery("0.1.31"),
}
