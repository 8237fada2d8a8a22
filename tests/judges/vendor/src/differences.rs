//! The tests that fail on purpose, each with its reason.

/// A test of a suite that fails.
pub struct Difference {
    pub suite: &'static str,
    pub test: &'static str,
    /// Why it is right to fail.
    #[expect(dead_code, reason = "for the reader of this file")]
    pub reason: &'static str,
    /// Whether it also passes, depending on the time that the machine takes.
    pub sometimes: bool,
}

const FASTER: &str = "expects that two messages, sent one after the other, reach the same turn; this provider wakes its \
                      dispatcher with the first";
const EARLY: &str = "expects that an activity of some milliseconds has not ended when it is looked at; SQLite's is found later";
const SQL: &str = "changes SQLite's tables";

pub const DIFFERENCES: &[Difference] = &[
    Difference {
        suite: "azure_data_cosmos",
        test: "emulator::emulator_tests::cosmos_proxy::proxy_enabled_routes_through_proxy",
        reason: "the proxy of the test is not contacted within 5 s; it needs no emulator",
        sometimes: true,
    },
    Difference {
        suite: "duroxide",
        test: "cancellation_tests::user_cancel_instance_and_dropped_future_both_enqueue_cancelinstance_for_child",
        reason: FASTER,
        sometimes: true,
    },
    Difference {
        suite: "duroxide",
        test: "reliability_tests::crash_after_dequeue_before_append_completion",
        reason: FASTER,
        sometimes: true,
    },
    Difference {
        suite: "duroxide",
        test: "reliability_tests::external_duplicate_workitems_dedup",
        reason: FASTER,
        sometimes: true,
    },
    Difference {
        suite: "duroxide",
        test: "worker_reliability_test::activity_reliability_after_crash_before_completion_enqueue",
        reason: EARLY,
        sometimes: true,
    },
    Difference {
        suite: "duroxide",
        test: "worker_reliability_test::multiple_activities_reliability_after_crash",
        reason: EARLY,
        sometimes: true,
    },
    Difference {
        suite: "duroxide",
        test: "capability_filtering_tests::wide_supported_range_drains_stuck_items_via_deserialization_error",
        reason: SQL,
        sometimes: false,
    },
    Difference {
        suite: "duroxide",
        test: "cancellation_corner_cases::q14_missing_version_is_poisoned_by_sqlite_dispatcher",
        reason: SQL,
        sometimes: false,
    },
    Difference {
        suite: "duroxide-cdb",
        test: "cosmosdb_provider_test::kv_store_tests::test_kv_special_chars_in_key",
        reason: "duroxide-cdb writes the key into the id; ids contain no `/`, `\\`, `?` or `#` (concepts-limits)",
        sometimes: false,
    },
];
