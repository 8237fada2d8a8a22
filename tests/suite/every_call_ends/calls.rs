//! The public calls that send requests. A new call is one line; a test compares the list with the
//! sources.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use cdb_client::database::ContainerChange;
use cdb_client::feed::FeedStart;
use cdb_client::write::BatchOutcome;
use cdb_client::{Bootstrap, Error};
use cdb_coordination::change_feed::{
    ChangeFeedState, feed_parts, feed_progress, reset_feed, versions_progress,
};
use cdb_coordination::lease::{Fenced, execute_fenced_batch, execute_fenced_once};
use cdb_coordination::message::Side;
use cdb_coordination::messaging::{MessagingConfig, Retrying};
use cdb_coordination::repository::Criteria;
use cdb_coordination::{DeadLetters, Leases, Message, MessageDocument, Messaging, Repository};
use cdb_model::operation::{BulkBatch, Lease};
use cdb_model::{Batch, Container, Document, Patch, Query, Timestamp};
use cdb_work::{
    ContainerArchive, Lane, NewEvent, NewWork, Partitions, Settlement, WorkAdmin, WorkBatch,
    WorkConfig, WorkCoordinator, WorkError, WorkMessageKey,
};
use serde::{Deserialize, Serialize};

use super::World;
use super::network::Sent;

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "thing", id = "{place}:thing:{number}")]
pub(super) struct Thing {
    #[document(partition_key)]
    place: String,
    number: u64,
    #[document(index)]
    state: String,
    #[document(lease)]
    lease: Lease,
    #[document(soft_delete)]
    #[serde(default)]
    deleted_at: Option<Timestamp>,
}

#[derive(Container, Debug)]
pub(super) enum Shop {
    Thing(Thing),
    Message(MessageDocument<Shop>),
}

#[derive(Serialize, Deserialize)]
pub(super) struct Note;

impl Message for Note {
    const TYPE: &'static str = "note";
}

fn thing(number: u64) -> Thing {
    Thing {
        place: "here".to_owned(),
        number,
        state: "new".to_owned(),
        lease: Lease::default(),
        deleted_at: None,
    }
}

/// A thing that no other call has created.
fn fresh() -> Thing {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1_000_000);
    thing(NEXT.fetch_add(1, Ordering::Relaxed))
}

fn key() -> ThingKey {
    ThingKey::new("here", 1)
}

fn all() -> Query<Thing> {
    Query::across_partitions()
}

fn batch(thing: &Thing) -> Batch<Shop> {
    let mut batch = Batch::new("here");
    batch.add(thing.create()).expect("it fits");
    batch
}

fn bulk() -> BulkBatch<Shop> {
    let mut bulk = BulkBatch::new();
    bulk.add(fresh().create()).expect("it fits");
    bulk
}

/// Few partitions, so that a coordinator opens with few requests.
pub(super) fn work_config() -> WorkConfig {
    WorkConfig::default().with_partitions(Partitions::new(2).expect("a number"))
}

fn leases(world: &World) -> Leases<Shop, Thing> {
    Leases::new(&world.shop, "holder")
}

/// Creates the documents that the calls need.
pub(super) async fn fill(world: &World) {
    for number in 1..=3 {
        let created = world.shop.run(thing(number).create()).await;
        created.expect("a document");
    }
}

type Run = fn(Arc<World>) -> Pin<Box<dyn Future<Output = ()>>>;

/// A public call.
pub(super) struct Call {
    /// The crate.
    pub(super) of: &'static str,
    pub(super) name: &'static str,
    /// Whether it needs an open coordinator of ordered work.
    pub(super) needs_work: bool,
    /// The requests that the call sends at a time: one to each of the two physical partitions.
    pub(super) concurrent: usize,
    pub(super) run: Run,
}

/// Returns how many queries a call sends at a time, or the process during it.
const fn concurrency(name: &str) -> usize {
    match name.as_bytes() {
        b"WorkAdmin::counts" => 4,
        // One of its own, and those for messages to deliver and to receive.
        b"Messaging::until_idle" => 3,
        b"Repository::count_each" => 2,
        _ => 1,
    }
}

/// The calls of a crate: each a name and an expression.
macro_rules! calls {
    ($($of:literal, $work:literal: { $($name:literal => |$world:ident| $call:expr,)* })*) => {
        &[$($(Call {
            of: $of,
            name: $name,
            needs_work: $work,
            concurrent: 2 * concurrency($name),
            run: |$world| Box::pin(async move { let _ended = $call.await; }),
        },)*)*]
    };
}

pub(super) const CALLS: &[Call] = calls! {
    "cdb-client", false: {
        "CosmosClient::account" => |w| w.client.account(),
        "DatabaseClient::change_container" => |w| async move {
            let change = ContainerChange::default().with_default_ttl(None);
            w.client.database("test").change_container("shop", &change).await
        },
        "DatabaseClient::indexing_progress" => |w| async move { w.client.database("test").indexing_progress("shop").await },
        "DatabaseClient::definition" => |w| async move { w.client.database("test").definition::<Shop>("shop").await },
        "DatabaseClient::bootstrap" => |w| async move {
            w.client.database("test").bootstrap::<Shop>("shop", Bootstrap::CreateIfMissing).await
        },
        "DatabaseClient::differences" => |w| async move { w.client.database("test").differences::<Shop>("shop").await },
        "CosmosClient::open" => |w| async move { w.client.open::<Shop>("test", "shop").await },
        "ContainerClient::check_account" => |w| w.shop.check_account(),
        "ContainerClient::honours_latest_committed" => |w| w.shop.honours_latest_committed(),
        "ContainerClient::physical_partitions" => |w| w.shop.physical_partitions(),
        "ContainerClient::physical_partition_of" => |w| async move { w.shop.physical_partition_of(&"here".into()).await },
        "ContainerClient::read" => |w| w.shop.read(&key()),
        "ContainerClient::read_many" => |w| w.shop.read_many([&key(), &ThingKey::new("there", 2)]),
        "ContainerClient::run" => |w| w.shop.run(fresh().create()),
        "ContainerClient::patch_and_read" => |w| w.shop.patch_and_read(key().patch().set(Thing::STATE, fresh().number.to_string())),
        "ContainerClient::create_if_missing" => |w| async move { w.shop.create_if_missing(&fresh()).await },
        "ContainerClient::upsert_json" => |w| async move {
            w.shop.upsert_json(&"here".into(), r#"{"id":"json","partitionKey":"here","place":"here"}"#).await
        },
        "ContainerClient::update" => |w| w.shop.update(&key(), |thing| thing.state = fresh().number.to_string()),
        "ContainerClient::try_update" => |w| w.shop.try_update(&key(), |thing| {
            thing.state = fresh().number.to_string();
            Ok::<_, Error>(())
        }),
        "ContainerClient::soft_delete" => |w| w.shop.soft_delete(&ThingKey::new("here", 3)),
        "ContainerClient::restore" => |w| w.shop.restore(&ThingKey::new("here", 3)),
        "ContainerClient::execute" => |w| async move { w.shop.execute(&batch(&fresh())).await },
        "ContainerClient::execute_bulk" => |w| async move { w.shop.execute_bulk(&bulk()).await },
        "ContainerClient::execute_bulk_skipping_unavailable" => |w| async move { w.shop.execute_bulk_skipping_unavailable(&bulk()).await },
        "ContainerClient::while_answering" => |w| async move {
            w.shop.while_answering(&"here".into(), w.shop.run(fresh().create())).await
        },
        "ContainerClient::until_stalled" => |w| async move {
            w.shop.until_stalled(&"here".into(), Duration::from_secs(1), w.shop.run(fresh().create())).await
        },
        "ContainerClient::in_time" => |w| async move {
            w.shop.in_time(&"here".into(), w.shop.run(fresh().create())).await
        },
        "QueryRun::all" => |w| async move { w.shop.query(all()).all().await },
        "QueryRun::all_available" => |w| async move { w.shop.query(all()).all_available().await },
        "QueryRun::first" => |w| async move { w.shop.query(all()).first().await },
        "QueryRun::one" => |w| async move { w.shop.query(all().count()).one().await },
        "QueryRun::page" => |w| async move { w.shop.query(all()).page(2, None).await },
        "Pages::next_page" => |w| async move { w.shop.query(all()).pages().next_page().await },
        "ChangeFeed::next_rows" => |w| async move { w.shop.change_feed(FeedStart::Beginning).next_rows().await },
        "ChangeFeed::next_page" => |w| async move { w.shop.change_feed(FeedStart::Beginning).next_page().await },
        "ChangeFeed::next_documents" => |w| async move { w.shop.change_feed(FeedStart::Beginning).next_documents().await },
        "ChangeFeed::next_changes" => |w| async move { w.shop.change_feed(FeedStart::Beginning).next_changes().await },
        "Migration::next_step" => |w| async move { w.shop.migrate(None).next_step().await },
    }
    "cdb-coordination", false: {
        "Messaging::open" => |w| async move { Messaging::<Shop>::open(&w.client, "test", "shop").await },
        "Messaging::commit" => |w| async move {
            let mut batch = w.messaging().batch("here");
            batch.add(fresh().create()).expect("it fits");
            w.messaging().commit(batch).await
        },
        // With a message, a lost answer is decided by its stream.
        "Messaging::commit" => |w| async move {
            let mut batch = w.messaging().batch("here");
            batch.send("there", &Note).expect("it fits");
            w.messaging().commit(batch).await
        },
        "Messaging::commit_once" => |w| async move {
            let mut batch = w.messaging().batch("here");
            batch.add(fresh().create()).expect("it fits");
            let request = fresh().number.to_string();
            w.messaging().commit_once(batch, &request, 7).await
        },
        "Messaging::answer" => |w| async move { w.messaging().answer::<u64>("here", "request").await },
        "Messaging::prepare" => |w| async move {
            let mut batch = w.messaging().batch("here");
            batch.add(fresh().create()).expect("it fits");
            w.messaging().prepare(&batch).await
        },
        "Messaging::until_idle" => |w| async move { w.messaging().until_idle().await },
        "Messaging::stop" => |w| async move {
            let mut batch = w.messaging().batch("here");
            batch.send("there", &Note).expect("it fits");
            let _failed = w.messaging().commit(batch).await;
            w.messaging().clone().stop().await;
        },
        "DeadLetters::list" => |w| async move { dead(&w).list(Timestamp::default(), 10).await },
        "DeadLetters::page" => |w| async move { dead(&w).page(10, None).await },
        "DeadLetters::count" => |w| async move { dead(&w).count().await },
        "DeadLetters::get" => |w| async move { dead(&w).get(&"here".into(), "name").await },
        "Retrying::page" => |w| async move { Retrying::new(w.shop.clone()).page(Side::Inbox, 10, None).await },
        "Retrying::get" => |w| async move { Retrying::new(w.shop.clone()).get(&"here".into(), "in-0-1").await },
        "Retrying::count" => |w| async move { Retrying::new(w.shop.clone()).count(Side::Inbox).await },
        "Leases::acquire" => |w| async move { lease(&w).await },
        "Leases::acquire_seen" => |w| async move {
            let seen = w.shop.read(&key()).await?;
            leases(&w).acquire_seen(seen.expect("it exists")).await
        },
        "Leases::break_lease" => |w| async move {
            let leased = lease(&w).await?;
            leases(&w).break_lease(&leased.document().key()).await
        },
        "Leases::take_next" => |w| async move { leases(&w).take_next(all(), 1).await },
        "LeaseGuard::renew" => |w| async move { lease(&w).await?.renew().await },
        "LeaseGuard::refresh" => |w| async move { lease(&w).await?.refresh().await.map(drop) },
        "LeaseGuard::run" => |w| async move {
            let mut guard = lease(&w).await?;
            let patch = Patch::new().set(Thing::STATE, "leased");
            guard.run(patch).await
        },
        "LeaseGuard::release" => |w| async move { lease(&w).await?.release().await },
        "execute_fenced_batch" => |w| async move { place(&w).await },
        "execute_fenced_once" => |w| async move {
            let new = fresh();
            let took_place = |latest: cdb_client::ContainerClient<Shop>| async move {
                Ok(latest.read(&key()).await?.is_none())
            };
            execute_fenced_once(&w.shop, &batch(&new), took_place).await
        },
        "Repository::find" => |w| async move { store(&w).find(&key()).await },
        "Repository::run" => |w| async move { store(&w).run(fresh().create()).await },
        "Repository::query" => |w| async move { store(&w).query(&Criteria::all()).await },
        "Repository::query_in" => |w| async move { store(&w).query_in("here", &Criteria::all()).await },
        "Repository::count" => |w| async move { store(&w).count(&Criteria::all()).await },
        "Repository::count_each" => |w| async move { store(&w).count_each(Thing::STATE, ["new", "old"]).await },
        "feed_progress" => |w| async move { feed_progress("reader", &w.shop, &state(&w)).await },
        "versions_progress" => |w| async move { versions_progress("reader", &w.shop, &state(&w)).await },
        "feed_parts" => |w| async move { feed_parts(&w.client, &state(&w)).await },
        "reset_feed" => |w| async move {
            reset_feed(&fresh().number.to_string(), &state(&w), FeedStart::Now).await
        },
    }
    "cdb-work", false: {
        "WorkCoordinator::open" => |w| async move {
            let slots = Arc::new(cdb_coordination::membership::InMemoryLeaseProvider::all());
            let open = WorkCoordinator::open(w.work_container(), slots, work_config());
            open.await
        },
        "WorkAdmin::retrying" => |w| async move { admin(&w).retrying(10, None).await },
        "WorkAdmin::dead_letters" => |w| async move { admin(&w).dead_letters(10, None).await },
        "WorkAdmin::counts" => |w| async move { admin(&w).counts().await },
        "WorkAdmin::dead_letter" => |w| async move {
            let key = WorkMessageKey::new("work-000", Lane::Inbox, "stream", "message");
            admin(&w).dead_letter(&key).await
        },
        "ContainerArchive::read" => |w| async move {
            ContainerArchive::new(w.work_container()).read("stream", 0, 10).await
        },
    }
    "cdb-work", true: {
        "WorkCoordinator::process" => |w| async move {
            let entries = vec![NewWork::inbox("stream", fresh().number.to_string()).into()];
            w.work().process(WorkBatch { entries, claim: 1, lane: None }).await
        },
        "WorkCoordinator::store_and_claim" => |w| async move {
            w.work().store_and_claim(NewWork::inbox("stream", fresh().number.to_string())).await
        },
        "WorkCoordinator::claim" => |w| async move { w.work().claim(1, Duration::from_secs(1)).await },
        "WorkCoordinator::claim_from" => |w| async move { w.work().claim_from(Lane::Inbox, 1, Duration::from_secs(1)).await },
        "WorkCoordinator::dead_letters" => |w| async move { w.work().dead_letters(10).await },
        "WorkCoordinator::forget_streams" => |w| async move { w.work().forget_streams(Duration::ZERO).await },
        "WorkCoordinator::shutdown" => |w| async move { w.work().shutdown().await },
        "Immediate::store" => |w| async move { store_work(&w).await },
        "Scoped::commit" => |w| async move {
            use cdb_work::FlushStrategy as _;
            let scope = w.work().scoped();
            let receipt = scope.store(NewWork::inbox("stream", fresh().number.to_string())).await;
            drop(scope.commit().await);
            receipt.settled().await
        },
        "Interval::close" => |w| async move {
            use cdb_work::FlushStrategy as _;
            let interval = w.work().interval(cdb_work::IntervalConfig::default());
            let receipt = interval.store(NewWork::inbox("stream", fresh().number.to_string())).await;
            drop(receipt);
            interval.close().await
        },
        "EventStore::append" => |w| async move {
            let stream = fresh().number.to_string();
            w.work().events().append(&stream, 0, vec![NewEvent::new("kind", "{}")]).await
        },
        "EventStore::append_next" => |w| async move {
            w.work().events().append_next("events", vec![NewEvent::new("kind", "{}")]).await
        },
        "EventStore::read" => |w| async move { w.work().events().read("stream", 0, 10).await },
        "EventStore::delete_up_to" => |w| async move { w.work().events().delete_up_to("stream", 10).await },
        "EventStore::archive_up_to" => |w| async move {
            let archive = ContainerArchive::new(w.work_container());
            w.work().events().archive_up_to("stream", 10, &archive).await
        },
        "EventStore::save_snapshot" => |w| async move { w.work().events().save_snapshot("stream", 1, "{}").await },
        "EventStore::snapshot" => |w| async move { w.work().events().snapshot("stream").await },
        "EventStore::version" => |w| async move { w.work().events().version("stream").await },
    }
};

/// Creates a thing in a batch.
pub(super) async fn place(world: &World) -> Result<Fenced<BatchOutcome<Shop>>, Error> {
    let new = fresh();
    execute_fenced_batch(&world.shop, &batch(&new), &new.key()).await
}

/// Stores a message of ordered work.
pub(super) async fn store_work(world: &World) -> Result<Settlement, WorkError> {
    let new = NewWork::inbox("stream", fresh().number.to_string());
    world.work().immediate().store(new).await
}

fn dead(world: &World) -> DeadLetters<Shop> {
    DeadLetters::new(world.shop.clone(), MessagingConfig::default())
}

fn store(world: &World) -> Repository<Shop, Thing> {
    Repository::new(&world.shop)
}

fn state(world: &World) -> cdb_client::ContainerClient<ChangeFeedState> {
    world.client.database("test").container("state")
}

fn admin(world: &World) -> WorkAdmin {
    WorkAdmin::new(world.work_container())
}

/// Leases a thing of this call's own.
async fn lease(
    world: &World,
) -> Result<cdb_coordination::lease::LeaseGuard<Shop, Thing>, cdb_coordination::LeaseError> {
    let new = fresh();
    world.shop.run(new.create()).await?;
    leases(world).acquire(&new.key()).await
}

/// Faults that this judge has found and that are not mended. A mended one must leave the list.
pub(super) const OPEN: &[(&str, Sent)] = &[];

/// Public asynchronous functions that have no line, with the reason.
pub(super) const LEFT_OUT: &[(&str, &str)] = &[
    ("ContainerClient::read_with_mark", "a read"),
    (
        "ContainerClient::delete_container",
        "one request of metadata, as `account`",
    ),
    ("ContainerClient::search", "queries, as `QueryRun::all`"),
    ("ContainerClient::send_raw", "for tests"),
    (
        "DatabaseClient::delete",
        "one request of metadata, as `account`",
    ),
    ("EventFeed::next_events", "as `ChangeFeed::next_rows`"),
    ("Immediate::report", "as `Immediate::store`"),
    ("Receipt::settled", "waits for a strategy: `Scoped::commit`"),
    ("StartedWork::stop", "as `WorkCoordinator::shutdown`"),
    ("Work::start", "as `WorkCoordinator::open`, and a heartbeat"),
    ("WorkAdmin::discard", "a batch"),
    ("WorkAdmin::redrive", "a patch"),
    ("WorkCoordinator::discard", "a batch"),
    ("WorkCoordinator::redrive", "a patch"),
    ("WorkRun::stop", "as `WorkCoordinator::shutdown`"),
    (
        "Dispatcher::work",
        "sends what its relay sends: `Messaging::stop`",
    ),
    ("ChangeProcessor::stop", "judged with a backlog in `ends`"),
    ("DeadLetters::discard", "a read and a write"),
    (
        "DeadLetters::redrive",
        "a form, a read and a batch, as `Messaging::commit`",
    ),
    ("Handlers::handle", "sends nothing"),
    ("PendingDelivery::done", "sends nothing"),
    ("LeaseGuard::release_with", "as `LeaseGuard::run`"),
    ("LeaseGuard::renew_if_due", "as `LeaseGuard::renew`"),
    ("Membership::leave", "has a timeout of its own"),
    ("MessageContext::run", "sends nothing"),
    ("SharedCall::run", "sends what its caller sends"),
    ("SimulatedTime::in_real_time", "for tests"),
    ("confirm_lock", "a read"),
    ("execute_fenced", "as `execute_fenced_batch`"),
    ("lock", "as `Leases::acquire_seen`"),
    ("renew_lock", "as `LeaseGuard::run`"),
    ("measure_charge", "sends what its caller sends"),
    ("reconcile", "sends what its relay sends: `Messaging::stop`"),
];
