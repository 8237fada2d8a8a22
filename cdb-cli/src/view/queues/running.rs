//! The activities that workers run, by runtime, in words.

use cdb_model::Timestamp;
use cdb_provider::observe::{BusyRuntime, RunningActivity};

use crate::output::{short, span};

/// Describes the activities of a runtime in a part of a sentence.
pub(crate) fn described(busy: &BusyRuntime, now: Timestamp) -> String {
    let on = busy.runtime.as_ref().map(|name| format!(" on `{name}`"));
    let RunningActivity {
        activity,
        instance,
        scheduled_at,
        ..
    } = &busy.longest;
    format!(
        "activities running{}: {}, the oldest {} of `{}`, scheduled {} ago",
        on.unwrap_or_default(),
        busy.activities,
        short(activity, 80),
        short(instance, 120),
        span(now.since(*scheduled_at))
    )
}
