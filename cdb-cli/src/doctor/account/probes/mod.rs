//! The table of all questions. Each is a function of a topic's module.

mod account;
mod batches;
mod costs;
mod definition;
mod feed;
mod ids;
mod partitions;
mod patches;
mod region;
mod search;
mod writes;

use crate::doctor::account::question::Probe;

macro_rules! probes {
    ($($need:ident $topic:ident::$name:ident $question:literal $file:literal $(, $more:literal)*;)*) => {
        /// All questions, in the order in which they are asked.
        pub const PROBES: [Probe; [$(stringify!($name)),*].len()] = [$(Probe {
            name: stringify!($name),
            question: $question,
            relied_on_by: &[$file $(, $more)*],
            is_required: probes!($need),
            ask: |check| Box::pin($topic::$name(check)),
        }),*];
    };
    (required) => { true };
    (measured) => { false };
}

probes! {
    required partitions::several_partitions "Does the container have several physical partitions?"
        "cdb-client/src/partitions/ranges.rs";
    required partitions::hashing "Does the client hash keys as the service does?"
        "cdb-client/src/partitions/epk.rs", "provider/src/queue/poll/probe.rs";
    required partitions::bulk "Does a bulk execute each operation, and name the failed one?"
        "cdb-client/src/container/write/bulk.rs";
    required partitions::aggregates "Are count, sum, minimum, maximum and average right over several partitions?"
        "cdb-model/src/query/aggregate/groups.rs", "cdb-client/src/container/query/row.rs";
    required partitions::group_by "Is GROUP BY right over several partitions?"
        "cdb-model/src/query/aggregate/groups.rs";
    required partitions::distinct "Is DISTINCT right over several partitions?"
        "cdb-model/src/query/aggregate/query.rs";
    required partitions::read_many "Are documents read by many keys over several partitions?"
        "cdb-client/src/container/query/read_many.rs";
    required partitions::order "Does a query of one physical partition sort by a composite index?"
        "provider/src/queue/poll/probe.rs", "cdb-client/src/container/query/merge.rs";
    required definition::index "Is the index complete after opening?"
        "cdb-client/src/database/extend.rs";
    required definition::extension "Does an extension leave the rest of the container's definition alone?"
        "cdb-client/src/database/extend.rs", "cdb-client/src/database/change.rs";
    required definition::container_etag "Does deleting a container with an outdated ETag fail with 412?"
        "cdb-client/src/container/context.rs";
    required batches::full_batch "Is a batch of 100 operations atomic, and does it name the failed one?"
        "provider/src/turn/commit/plan.rs", "cdb-client/src/container/write/batch.rs";
    required batches::false_condition "Does a batch with a false condition of a patch fail with 412 and change nothing?"
        "cdb-coordination/src/lease/fenced.rs", "provider/src/turn/lock.rs";
    required batches::read "Does a batch return a document that it reads, and fail if it is missing?"
        "cdb-client/src/container/write/batch.rs";
    required batches::size "Is a batch below 2 MB written, and one above refused as a whole?"
        "cdb-model/src/limits.rs", "provider/src/turn/commit/plan.rs";
    measured patches::incr "Does `incr` of a missing path create it?"
        "cdb-model/src/operation/patch/changes.rs";
    required patches::ten_changes "May a patch have 10 changes?"
        "cdb-model/src/limits.rs";
    measured patches::eleven_changes "Are 11 changes refused?"
        "cdb-model/src/limits.rs";
    required patches::time_condition "Does a condition on a time decide a patch?"
        "cdb-model/src/operation/lease.rs", "cdb-coordination/src/lease/lock.rs";
    required patches::hot_document "How many patches a second does one document take, and does each count once?"
        "provider/src/queue/limits/protocol/patches.rs";
    required ids::separators "Can ids contain `: | ; , ~`?"
        "cdb-model/src/value/id.rs";
    required ids::other_scripts "Can ids contain other scripts and emoji?"
        "cdb-model/src/value/id.rs", "cdb-client/src/protocol/resource.rs";
    required ids::keys_of_other_scripts "Can partition keys contain other scripts and emoji?"
        "cdb-model/src/value/partition_key.rs", "cdb-client/src/partitions/epk.rs";
    required ids::keys_with_control_characters "Can partition keys contain control characters?"
        "cdb-model/src/value/partition_key.rs";
    measured ids::control_characters "Can ids contain control characters?"
        "cdb-model/src/value/id.rs";
    required feed::from_beginning "Does the change feed from the beginning return all documents in order?"
        "cdb-client/src/container/feed/change_feed.rs", "cdb-coordination/src/change_feed/reader.rs";
    required feed::from_now "Does the change feed from now return later changes only?"
        "cdb-client/src/container/feed/change_feed.rs";
    required feed::since "Does the change feed since a time leave out older changes?"
        "cdb-client/src/container/feed/change_feed.rs";
    required feed::resumed "Does a resumed change feed return each change once?"
        "cdb-client/src/container/feed/cursor.rs", "cdb-coordination/src/change_feed/progress.rs";
    required writes::outdated_etag "Does a patch with an outdated ETag fail with 412?"
        "provider/src/turn/commit/plan.rs", "cdb-coordination/src/lease/lock.rs";
    required writes::deletion_etag "Does a deletion with an outdated ETag fail with 412?"
        "cdb-client/src/container/point.rs", "cdb-coordination/src/membership/roster.rs";
    measured writes::upsert_of_missing "Does an upsert with If-Match create a missing document?"
        "cdb-client/src/container/point.rs";
    measured writes::unique_key "How is a violated unique key answered, and does the client tell it from a taken id?"
        "cdb-client/src/container/write/conflict.rs";
    measured search::full_text "Does a full-text search rank documents by their words?"
        "cdb-client/src/container/query/search/plan.rs";
    measured search::missing_vector "Is a document without the vector ranked last, or left out?"
        "cdb-client/src/container/query/search/mod.rs";
    measured search::hybrid "Does a hybrid search combine words and vectors?"
        "cdb-client/src/container/query/search/fusion.rs";
    measured region::satellite_write "Does another region refuse a write with 403/3, or accept a tentative one?"
        "cdb-client/src/retry/reroute.rs";
    measured region::satellite_bulk "Does another region refuse a bulk with 403/3?"
        "cdb-client/src/container/write/bulk.rs", "cdb-client/src/retry/reroute.rs";
    measured region::entra "May an Entra ID identity read and write, and not create containers?"
        "cdb-client/src/database/bootstrap.rs";
    required account::one_write_region "Does one region accept writes?"
        "provider/src/turn/lock.rs", "cdb-client/src/container/consistency.rs";
    required account::consistency "Is the default consistency Session or stronger?"
        "cdb-client/src/partitions/session_token.rs", "cdb-client/src/container/consistency.rs";
    measured ids::large_integers "Are integers above 2^53 rounded?"
        "cdb-model/src/value/numbers.rs";
    required writes::expiry "Does a document expire by its `ttl`?"
        "provider/src/stored/documents/queue_item.rs", "provider/src/stored/documents/chunk.rs";
    measured region::hub "Is a read answered that has the header of the hub region and `LatestCommitted`?"
        "cdb-client/src/retry/reroute.rs";
    measured account::latest_committed "Does a read with `LatestCommitted` cost about twice a session read?"
        "cdb-client/src/container/consistency.rs";
    measured account::without_version "Is a request without `x-ms-version` answered?"
        "cdb-emulator/src/server/execute.rs";
    measured account::unknown_version "Is an unknown `x-ms-version` refused with 400?"
        "cdb-emulator/src/server/execute.rs";
    measured account::clock "How far is the service's clock from this machine's?"
        "cdb-client/src/clock.rs";
    measured costs::latencies "How long do reads, patches and batches take?"
        "cdb-client/src/retry/config.rs";
    measured costs::hello "What does a hello world cost?"
        "provider/src/timing.rs";
}
