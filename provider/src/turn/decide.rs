//! Decides what an attempt at an instance does next. Sends nothing: `fetch` performs the decisions.
//!
//! An attempt uses one source after the other, until one leads to a turn or to a reason against it.
//! Only the lock proves that a source is current.

use std::collections::BTreeSet;

use cdb_model::{Stored, Timestamp};
use duroxide::providers::DispatcherCapabilityFilter;

use super::loaded::Loaded;
use crate::queue::instances::{Attempt, Left, Message, Presence, supports};
use crate::queue::local_queue::FetchRequest;
use crate::stored::documents::Instance;
use crate::stored::payload::Payloads;
use crate::timing::{MESSAGE_RESERVED, STORE_LOCK};

/// The request of one dispatcher.
pub(super) type Request = FetchRequest<Option<DispatcherCapabilityFilter>>;

/// A source of what the next turn of an instance needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The document of an instance that was paused when it was read last. Costs a point read, while a
    /// load reads the whole history.
    Pause,
    /// The messages that have come to an execution without room for more events since all were
    /// known, and whether another runtime has committed a turn. Only changes what is known: `decide` never
    /// sees it. Costs little, while a load reads all that wait.
    Arrivals,
    /// What the last commit of this process left, and the known messages.
    Cache,
    /// The document of an instance that another runtime had locked when it was read last. Costs a point read.
    Holder,
    /// All documents of the instance.
    Partition,
}

impl Source {
    pub(super) const CHEAPEST_FIRST: [Self; 5] = [
        Self::Pause,
        Self::Arrivals,
        Self::Cache,
        Self::Holder,
        Self::Partition,
    ];

    /// Returns whether the source can decide, or changes what is known.
    pub(super) fn is_useful(self, known: &Attempt, was_paused: bool) -> bool {
        let knows_messages = !known.search && !known.messages.is_empty();
        match self {
            Self::Pause => was_paused && knows_messages,
            Self::Arrivals => {
                known.unread_since.is_some() && !known.search && known.cached.is_some()
            }
            Self::Cache => knows_messages,
            Self::Holder => matches!(known.presence, Presence::Locked { .. }),
            Self::Partition => true,
        }
    }
}

/// What an attempt knows beside the documents.
pub(super) struct View<'a> {
    pub(super) source: Source,
    pub(super) known: &'a Attempt,
    pub(super) request: &'a Request,
    pub(super) payloads: &'a Payloads,
    pub(super) extent: Extent,
}

/// How much of an instance is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// The documents that the source has.
    Partial,
    /// The whole history, and the messages of one turn.
    Complete,
}

impl View<'_> {
    /// Returns whether the next poll finds whatever another runtime leaves that took the lock first.
    pub(super) fn leaves_to_winner(&self) -> bool {
        let is_runtime = self.request.caller.is_runtime();
        self.source == Source::Cache && self.known.is_polled && is_runtime
    }
}

/// The next step of an attempt.
#[derive(Debug)]
pub(super) enum Decision<'a> {
    /// Uses the next source.
    LookFurther,
    /// Uses the next source of an instance that is not paused any more.
    ForgetPause,
    /// Withholds the messages of the paused instance.
    Withhold(&'a Stored<Instance>),
    /// Deletes messages that no turn may take.
    Delete(Vec<Message>, Declined),
    /// Deletes the messages that no instance will receive, if there are any.
    DeleteOrphans,
    /// Completes the history, and leaves out the events for which the execution has no room.
    Complete,
    /// Leaves the messages to later turns: the execution has no room for them.
    LeaveAll,
    /// Begins a turn without a stored lock. No other runtime looks at the instance until this time.
    Reserve(Timestamp),
    /// Locks the instance.
    Lock,
    Decline(Declined),
}

/// Why an attempt does not begin a turn.
#[derive(Debug)]
pub(super) enum Declined {
    /// The instance has no due messages.
    Nothing,
    /// The due messages are events of these queues, for which the execution has no room.
    Full(BTreeSet<String>, Left),
    /// Another runtime has locked the instance, until this time if it is known.
    Locked {
        until: Option<Timestamp>,
        then: AfterLock,
    },
    /// The instance cannot be processed, considering messages due until `newest`.
    Unfit { newest: Timestamp, cause: Unfit },
}

/// What follows the backoff of an instance that another runtime has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterLock {
    /// The dispatcher reads the instance again.
    Search,
    /// The next poll finds whatever remains.
    AwaitPoll,
}

impl Declined {
    pub(super) fn locked(until: Option<Timestamp>) -> Self {
        let then = AfterLock::Search;
        Self::Locked { until, then }
    }

    /// Another runtime has changed the instance.
    pub(super) fn overtaken() -> Self {
        let (until, then) = (None, AfterLock::AwaitPoll);
        Self::Locked { until, then }
    }
}

/// Why this process cannot process an instance.
#[derive(Debug)]
pub(super) enum Unfit {
    /// A payload has a key that is unavailable, for this reason.
    KeyMissing(String),
    /// The dispatcher does not support this version.
    Pinned(u64),
    /// The start of the instance, or of its next execution, has not arrived yet.
    NoStart,
    /// The attempt has failed.
    Failed,
}

/// Decides what follows from the documents of a source at a time.
pub(super) fn decide<'a>(view: &View<'_>, loaded: &'a Loaded, now: Timestamp) -> Decision<'a> {
    if view.extent == Extent::Complete {
        return begin(view, loaded, now);
    }
    let is_locked = loaded.is_locked(now);
    match view.source {
        Source::Pause if loaded.paused().is_none() => return Decision::ForgetPause,
        Source::Holder if !is_locked => return Decision::LookFurther,
        Source::Cache | Source::Partition if loaded.messages.is_empty() => {
            return Decision::Decline(Declined::Nothing);
        }
        _ => {}
    }
    let instance = loaded.instance.as_ref().map(|stored| &stored.document);
    if is_locked {
        let until = instance.and_then(|instance| instance.locked_until);
        return Decision::Decline(Declined::locked(until));
    }
    if let Some(paused) = loaded.paused() {
        return Decision::Withhold(paused);
    }
    let mut missing = loaded.messages.iter().filter_map(|message| {
        let text = message.stored.document.work_item.header();
        view.payloads.missing_key(text)
    });
    // The filter is applied before the lock and before any event is decoded: an incompatible
    // execution may hold events that this version does not know (provider guide, "Capability
    // Filtering Contract").
    let filter = view.request.capability.as_ref();
    let pinned = instance.and_then(|instance| instance.pinned_duroxide_version_packed);
    let pinned = pinned.filter(|pinned| !supports(filter, *pinned));
    let missing = missing.next().map(Unfit::KeyMissing);
    if let Some(cause) = missing.or(pinned.map(Unfit::Pinned)) {
        let newest = loaded.newest_due();
        return Decision::Decline(Declined::Unfit { newest, cause });
    }
    let stale = loaded.of_another_instance();
    if !stale.is_empty() {
        return Decision::Delete(stale, Declined::locked(None));
    }
    if loaded.has_context() {
        Decision::Complete
    } else {
        Decision::DeleteOrphans
    }
}

/// Decides how the turn of a complete instance begins.
fn begin(view: &View<'_>, loaded: &Loaded, now: Timestamp) -> Decision<'static> {
    if loaded.messages.is_empty() {
        return Decision::LeaveAll;
    }
    // A message for an ended instance with a damaged history would fail the instance again and
    // again.
    if loaded.is_over() && loaded.history().is_err() {
        return Decision::Delete(loaded.messages.clone(), Declined::Nothing);
    }
    let until = if view.source == Source::Cache {
        // A shorter reservation would end before the lock is stored.
        let until = loaded.reserved_until();
        until.filter(|until| until.since(now) > STORE_LOCK)
    } else {
        // The code of this process could not execute the turn before. The attempt writes nothing, unless
        // it takes long or can execute the turn. The first attempt of each process has a lock, so that
        // a turn that kills the process is counted.
        let is_again = view.known.is_for_other_code && loaded.is_for_other_code();
        is_again.then(|| now + MESSAGE_RESERVED)
    };
    match until.filter(|_| view.request.caller.is_runtime()) {
        Some(until) => Decision::Reserve(until),
        None => Decision::Lock,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use cdb_model::{DocumentKey as _, ETag, Timestamp};
    use duroxide::providers::WorkItem;

    use super::*;
    use crate::queue::instances::{CachedInstance, History, Instances};
    use crate::queue::local_queue::{Caller, Work};
    use crate::stored::documents::{
        Hold, HoldCause, InstanceKey, OperatorAction, OrchestratorItem, Status,
    };
    use crate::stored::kv::KvState;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
    const LATER: Timestamp = Timestamp::from_millis(1_700_000_005_000);

    /// What an attempt knows, and what a source has.
    struct Case {
        source: Source,
        known: Attempt,
        request: Request,
        payloads: Payloads,
        extent: Extent,
        loaded: Loaded,
    }

    impl Case {
        fn new(source: Source, messages: Vec<Message>) -> Self {
            let nothing = <Instances as Work>::Known::default();
            Self {
                source,
                known: Instances::attempt(&nothing, Instant::now()),
                request: Request {
                    capability: None,
                    lock_timeout: Duration::from_secs(5),
                    caller: Caller::Runtime,
                },
                payloads: Payloads::default(),
                extent: Extent::Partial,
                loaded: Loaded::new_instance("i", messages),
            }
        }

        fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
            change(&mut self);
            self
        }

        /// Adds a running instance.
        fn of(self, change: impl FnOnce(&mut Instance)) -> Self {
            let mut document = Instance {
                orchestration_name: "Order".to_owned(),
                status: Status::Running,
                ..Instance::pending("i", NOW)
            };
            change(&mut document);
            self.with(|case| case.loaded.instance = Some(stored(document)))
        }

        fn complete(self) -> Self {
            self.with(|case| case.extent = Extent::Complete)
        }

        fn view(&self) -> View<'_> {
            View {
                source: self.source,
                known: &self.known,
                request: &self.request,
                payloads: &self.payloads,
                extent: self.extent,
            }
        }
    }

    fn stored(document: Instance) -> Stored<Instance> {
        Stored {
            id: InstanceKey::new("i").to_id().unwrap(),
            etag: ETag::new("1"),
            timestamp: NOW,
            document,
        }
    }

    fn message(item: WorkItem) -> Message {
        let document = OrchestratorItem {
            instance_id: "i".to_owned(),
            cause: "1".to_owned(),
            work_item: serde_json::to_string(&item).unwrap().into(),
            visible_at: NOW,
            enqueued_at: NOW,
            ..OrchestratorItem::default()
        };
        Message::written(document, item, ETag::new("1"), tokio::time::Instant::now()).unwrap()
    }

    fn event(data: &str) -> Message {
        message(WorkItem::ExternalRaised {
            instance: "i".to_owned(),
            name: "paid".to_owned(),
            data: data.to_owned(),
        })
    }

    /// An event that is reserved for this process.
    fn reserved() -> Message {
        let mut message = event("");
        message.stored.document = message.stored.document.reserved(NOW);
        message
    }

    fn start() -> Message {
        message(WorkItem::StartOrchestration {
            instance: "i".to_owned(),
            orchestration: "Order".to_owned(),
            input: String::new(),
            version: None,
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            execution_id: 1,
        })
    }

    fn cancelled_by_another() -> Message {
        let mut message = message(WorkItem::CancelInstance {
            instance: "i".to_owned(),
            reason: String::new(),
        });
        message.stored.document.cancelled_by = Some("another".to_owned());
        message
    }

    fn locked(instance: &mut Instance) {
        instance.lock_token = Some("t".to_owned());
        instance.locked_until = Some(LATER);
    }

    fn paused(instance: &mut Instance) {
        let (by, what) = (String::new(), String::new());
        instance.paused = Some(OperatorAction { at: NOW, by, what });
    }

    fn pinned(instance: &mut Instance) {
        instance.pinned_duroxide_version_packed = Some(9_000_000);
    }

    fn between_executions(instance: &mut Instance) {
        instance.status = Status::ContinuedAsNew;
    }

    fn for_other_code(instance: &mut Instance) {
        instance.held = Some(Hold {
            since: NOW,
            cause: HoldCause::Unregistered,
            orchestration: String::new(),
            version: None,
            event: None,
            reason: String::new(),
            by: String::new(),
        });
    }

    fn supports_nothing(case: &mut Case) {
        let supported_duroxide_versions = Vec::new();
        case.request.capability = Some(DispatcherCapabilityFilter {
            supported_duroxide_versions,
        });
    }

    /// The decision without documents. Times are those from now.
    fn told(decision: &Decision<'_>) -> String {
        match decision {
            Decision::Withhold(_) => "Withhold".to_owned(),
            Decision::Delete(messages, why) => {
                format!("Delete({}, {})", messages.len(), reason(why))
            }
            Decision::Reserve(until) => format!("Reserve({:?})", until.since(NOW)),
            Decision::Decline(why) => reason(why),
            decision => format!("{decision:?}"),
        }
    }

    fn reason(why: &Declined) -> String {
        match why {
            Declined::Locked { until, .. } => {
                format!("Locked({:?})", until.map(|until| until.since(NOW)))
            }
            Declined::Unfit { cause, .. } => match cause {
                Unfit::KeyMissing(_) => "KeyMissing".to_owned(),
                cause => format!("{cause:?}"),
            },
            why => format!("{why:?}"),
        }
    }

    fn check(cases: impl IntoIterator<Item = (&'static str, Case)>) {
        for (row, (expected, case)) in cases.into_iter().enumerate() {
            let decision = told(&decide(&case.view(), &case.loaded, NOW));
            assert_eq!(decision, expected, "row {row}");
        }
    }

    #[test]
    fn the_documents_of_a_source_decide_before_the_load_is_complete() {
        use Source::{Cache, Holder, Partition, Pause};
        let locked_by_other = "Locked(Some(5s))";
        let paused_and_locked = |it: &mut Instance| {
            paused(it);
            locked(it);
        };
        let encoded = || event("cdb:payload:k2:dGV4dA==");
        let case = |source| Case::new(source, vec![event("")]);
        check(vec![
            ("ForgetPause", case(Pause)),
            ("ForgetPause", case(Pause).of(locked)),
            ("Withhold", case(Pause).of(paused)),
            (locked_by_other, case(Pause).of(paused_and_locked)),
            ("LookFurther", case(Holder)),
            ("LookFurther", case(Holder).of(paused)),
            (locked_by_other, case(Holder).of(locked)),
            (locked_by_other, Case::new(Holder, vec![]).of(locked)),
            ("Nothing", Case::new(Cache, vec![]).of(|_| {})),
            ("Nothing", Case::new(Partition, vec![]).of(locked)),
            (locked_by_other, case(Partition).of(locked)),
            ("Withhold", case(Partition).of(paused)),
            ("Withhold", case(Cache).of(paused)),
            (
                "KeyMissing",
                Case::new(Partition, vec![encoded()]).of(pinned),
            ),
            ("Complete", case(Partition).of(pinned)),
            (
                "Pinned(9000000)",
                case(Partition).of(pinned).with(supports_nothing),
            ),
            (
                "Complete",
                case(Partition).of(|_| {}).with(supports_nothing),
            ),
            (
                "Delete(1, Locked(None))",
                Case::new(Partition, vec![cancelled_by_another(), event("")]).of(|_| {}),
            ),
            ("DeleteOrphans", case(Partition)),
            ("DeleteOrphans", case(Partition).of(between_executions)),
            ("Complete", Case::new(Partition, vec![event(""), start()])),
            ("Complete", case(Cache).of(|_| {})),
        ]);
    }

    #[test]
    fn a_complete_instance_is_locked_unless_no_other_runtime_looks_at_it() {
        use Source::{Cache, Partition};
        let case = |source, message| Case::new(source, vec![message]).of(|_| {}).complete();
        let reserve = "Reserve(1s)";
        let single = |case: &mut Case| case.request.caller = Caller::Single;
        let again = |case: &mut Case| case.known.is_for_other_code = true;
        let soon_over = |case: &mut Case| {
            let document = &mut case.loaded.messages[0].stored.document;
            document.visible_at = NOW + STORE_LOCK;
        };
        let damaged = |case: &mut Case| case.loaded.damage = Some(String::new());
        check(vec![
            ("LeaveAll", Case::new(Cache, vec![]).of(|_| {}).complete()),
            ("Lock", case(Cache, event(""))),
            (reserve, case(Cache, reserved())),
            ("Lock", case(Cache, reserved()).with(single)),
            ("Lock", case(Cache, reserved()).with(soon_over)),
            (
                "Lock",
                case(Cache, reserved()).with(|it| it.loaded.messages.push(event(""))),
            ),
            ("Lock", case(Partition, reserved())),
            ("Lock", case(Partition, event("")).of(for_other_code)),
            ("Lock", case(Partition, event("")).with(again)),
            (
                reserve,
                case(Partition, event("")).of(for_other_code).with(again),
            ),
            (
                "Lock",
                case(Partition, event(""))
                    .of(for_other_code)
                    .with(again)
                    .with(single),
            ),
            ("Lock", case(Partition, event("")).with(damaged)),
            (
                "Lock",
                case(Partition, event("")).of(|it| it.status = Status::Completed),
            ),
            (
                "Delete(1, Nothing)",
                case(Partition, event(""))
                    .of(|it| it.status = Status::Completed)
                    .with(damaged),
            ),
        ]);
    }

    #[test]
    fn only_useful_sources_are_read() {
        use Source::{Arrivals, Cache, Holder, Partition, Pause};
        let useful = |was_paused, change: fn(&mut Attempt)| {
            let mut known = Case::new(Cache, vec![]).known;
            change(&mut known);
            let mut useful = Source::CHEAPEST_FIRST.to_vec();
            useful.retain(|source| source.is_useful(&known, was_paused));
            useful
        };
        let has_event: fn(&mut Attempt) = |known| known.messages = vec![event("")];
        let must_search: fn(&mut Attempt) = |known| {
            known.messages = vec![event("")];
            known.search = true;
            known.unread_since = Some(NOW);
        };
        let was_held: fn(&mut Attempt) = |known| {
            let backoff = Duration::from_secs(1);
            known.presence = Presence::Locked { backoff };
        };
        let full: fn(&mut Attempt) = |known| {
            known.unread_since = Some(NOW);
            known.cached = Some(Arc::new(CachedInstance {
                instance: stored(Instance::pending("i", NOW)),
                history: History::default(),
                kv: KvState::default(),
            }));
        };
        assert_eq!(useful(true, |_| {}), [Partition]);
        assert_eq!(useful(false, has_event), [Cache, Partition]);
        assert_eq!(useful(true, has_event), [Pause, Cache, Partition]);
        assert_eq!(useful(true, must_search), [Partition]);
        assert_eq!(useful(false, was_held), [Holder, Partition]);
        assert_eq!(
            useful(false, |known| known.unread_since = Some(NOW)),
            [Partition]
        );
        assert_eq!(useful(false, full), [Arrivals, Partition]);
    }

    #[test]
    fn only_a_runtime_leaves_polled_messages_to_the_winner() {
        for (expected, source, is_polled, caller) in [
            (true, Source::Cache, true, Caller::Runtime),
            (false, Source::Partition, true, Caller::Runtime),
            (false, Source::Cache, false, Caller::Runtime),
            (false, Source::Cache, true, Caller::Single),
        ] {
            let mut case = Case::new(source, vec![]);
            case.known.is_polled = is_polled;
            case.request.caller = caller;
            assert_eq!(case.view().leaves_to_winner(), expected, "{source:?}");
        }
    }
}
