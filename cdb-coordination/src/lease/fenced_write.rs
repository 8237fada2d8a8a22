//! A write that takes effect once or not at all. It is sent until its outcome is known.
//!
//! Its first operation carries the fence: the version or condition that the write must find. Every
//! send is the same write, so a send that the service carries out late leaves what another send
//! would leave.

use std::time::Duration;

use cdb_client::retry::{with_own_deadline, within_deadline};
use cdb_client::{ContainerClient, Error};
use cdb_model::Container;
use tokio::time::{Instant, sleep, timeout};

use super::lock::is_lost_race;
use crate::timing::{RESEND_PAUSE, least_send};

/// How often a write is sent while its outcome is unknown, unless it says otherwise.
const MAX_SENDS: u32 = 4;

/// A write for [`execute_fenced`], whose example shows a complete one.
///
/// ```
/// use cdb_coordination::lease::{Fenced, FencedWrite, execute_fenced};
///
/// async fn took_place<W: FencedWrite>(write: &mut W) -> Result<bool, W::Error> {
///     let fenced = execute_fenced(write).await?;
///     Ok(matches!(fenced, Fenced::Committed(_) | Fenced::CommittedBefore))
/// }
/// ```
pub trait FencedWrite: Send {
    /// The container that is written to.
    type Container: Container;
    /// The answer to a send: the ETags that the write left.
    type Answer: Send;
    /// Why a write cannot be prepared, or its outcome cannot be read.
    type Error: From<Error> + Send;

    /// The container that is written to.
    fn container(&self) -> &ContainerClient<Self::Container>;

    /// Whether an earlier call may have sent the same write. If not, a refusal of the first send is
    /// final, and [`execute_fenced`] does not read what became of the write.
    fn may_be_repeated(&self) -> bool {
        true
    }

    /// Prepares the send after `sends` others. Returns the timeout of the send, or `None` to stop
    /// sending. By default a write is sent up to four times without a timeout (`Duration::MAX`), all
    /// within the deadline of one request.
    ///
    /// A holder of a lock renews it here, returns a third of the lock time, and `None` after the
    /// lock has ended. The renewal moves the version, so it prepares the same write under the new
    /// one.
    fn prepare(
        &mut self,
        sends: u32,
    ) -> impl Future<Output = Result<Option<Duration>, Self::Error>> + Send {
        let timeout = (sends < MAX_SENDS).then_some(Duration::MAX);
        std::future::ready(Ok(timeout))
    }

    /// Sends the write.
    fn send(&self) -> impl Future<Output = Result<Self::Answer, Error>> + Send;

    /// Reads from `latest`, which answers from the latest committed state, what became of the
    /// write.
    fn find_out(
        &mut self,
        latest: &ContainerClient<Self::Container>,
    ) -> impl Future<Output = Result<Found, Self::Error>> + Send;

    /// Chooses the error after the answer to a send was lost and [`find_out`](Self::find_out) has
    /// failed, by default its error. The error `lost` of the send
    /// [is ambiguous](Error::is_ambiguous): choose it if the outcome could not be read.
    fn unread(lost: Error, error: Self::Error) -> Self::Error {
        drop(lost);
        error
    }
}

/// The result of [`FencedWrite::find_out`].
///
/// ```
/// use cdb_coordination::lease::Found;
///
/// let is_ours = |found: Found| found != Found::Lost;
/// assert!(is_ours(Found::NewVersion) && !is_ours(Found::Lost));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The store proves that the write took place: by the token of the write, or by a document that
    /// only the write creates.
    Done,
    /// The store has the version that the write was prepared for.
    Unchanged,
    /// The store has another version, but the lock is still held: the write can be sent under that
    /// version.
    NewVersion,
    /// Another writer was faster.
    Lost,
}

/// The result of [`execute_fenced`].
///
/// ```
/// use cdb_coordination::lease::Fenced;
///
/// let fenced: Fenced<()> = Fenced::Lost;
/// assert!(!matches!(fenced, Fenced::Committed(_) | Fenced::CommittedBefore));
/// ```
#[derive(Debug)]
pub enum Fenced<A> {
    /// The write took place. Without an answer, the store proved it.
    Committed(Option<A>),
    /// The write had taken place before this call.
    CommittedBefore,
    /// Another writer was faster.
    Lost,
    /// The write did not take place. [`operation_index`](Error::operation_index) names the refused
    /// operation of a batch.
    Refused(Error),
    /// The outcome is still unknown, and sending has stopped.
    Unknown(Option<Error>),
}

/// Sends a write until it is known whether it took place.
///
/// # Errors
/// When the write cannot be prepared, or its outcome cannot be read.
///
/// ```
/// use cdb_client::{ContainerClient, Error};
/// use cdb_coordination::lease::{Fenced, FencedWrite, Found, execute_fenced};
/// use cdb_model::document::WriteMark;
/// use cdb_model::{Document as _, ETag, Stored};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, OrderKey, Shop, order};
///
/// /// Marks an order as paid.
/// struct Pay {
///     shop: ContainerClient<Shop>,
///     seen: Stored<Order>,
///     mark: WriteMark, // of random bits: another writer may pay the order, too
/// }
///
/// impl FencedWrite for Pay {
///     type Container = Shop;
///     type Answer = ETag;
///     type Error = Error;
///
///     fn container(&self) -> &ContainerClient<Shop> {
///         &self.shop
///     }
///
///     async fn send(&self) -> Result<ETag, Error> {
///         let paid = Order { state: "paid".into(), ..self.seen.document.clone() };
///         let pay = paid.replace().if_match(&self.seen.etag).marked(&self.mark);
///         Ok(self.shop.run(pay).await?.etag)
///     }
///
///     async fn find_out(&mut self, latest: &ContainerClient<Shop>) -> Result<Found, Error> {
///         Ok(match latest.read_with_mark(&self.seen).await? {
///             Some((_, Some(mark))) if mark == self.mark => Found::Done,
///             Some((found, _)) if found.etag == self.seen.etag => Found::Unchanged,
///             _ => Found::Lost,
///         })
///     }
/// }
///
/// # shop::with_shop(async |shop| {
/// # shop.run(order(7).create()).await?;
/// let seen = shop.read(&OrderKey::new("ann", 7)).await?.expect("it was placed");
/// let mut pay = Pay { shop, seen, mark: WriteMark::new(0x6f1e_62a0_95d1_3c07) };
/// assert!(matches!(execute_fenced(&mut pay).await?, Fenced::Committed(_)));
/// assert!(matches!(execute_fenced(&mut pay).await?, Fenced::CommittedBefore));
/// # Ok(()) }).unwrap();
/// ```
pub async fn execute_fenced<W: FencedWrite>(write: &mut W) -> Result<Fenced<W::Answer>, W::Error> {
    let latest = write.container().latest_committed();
    let (deadline, begun) = (latest.deadline(), Instant::now());
    let (mut sends, mut is_open, mut last) = (0, false, None);
    while let Some(time) = write.prepare(sends).await? {
        let left = match time {
            Duration::MAX => deadline.saturating_sub(begun.elapsed()),
            _ => Duration::MAX,
        };
        // With less time, its outcome would probably be unknown again.
        if sends > 0 && left < least_send(deadline) {
            break;
        }
        sends += 1;
        let mut refusal = match timeout(time, within_deadline(left, write.send())).await {
            Ok(Ok(answer)) => return Ok(Fenced::Committed(Some(answer))),
            Ok(Err(error)) if !error.is_ambiguous() => Some(error),
            Ok(Err(error)) => {
                last = Some(error);
                None
            }
            Err(_elapsed) => None,
        };
        is_open |= refusal.is_none();
        // After an unanswered send, or at the fence, the write may have taken place before.
        let is_unclear = |error: &Error| is_open || (write.may_be_repeated() && is_at_fence(error));
        if let Some(error) = refusal.take_if(|error| !is_unclear(error)) {
            return Ok(Fenced::Refused(error));
        }
        let found = match with_own_deadline(write.find_out(&latest)).await {
            Ok(found) => found,
            Err(error) => {
                return Err(match last {
                    Some(unanswered) => W::unread(unanswered, error),
                    None => error,
                });
            }
        };
        match (found, refusal) {
            (Found::Done, _) if is_open => return Ok(Fenced::Committed(None)),
            (Found::Done, _) => return Ok(Fenced::CommittedBefore),
            (Found::Lost, _) => return Ok(Fenced::Lost),
            (Found::Unchanged, Some(error)) => return Ok(Fenced::Refused(error)),
            (Found::Unchanged | Found::NewVersion, _) => sleep(RESEND_PAUSE).await,
        }
    }
    Ok(Fenced::Unknown(last))
}

/// Whether the first operation of a write was refused, because its condition does not hold.
pub(super) fn is_at_fence(error: &Error) -> bool {
    error.operation_index().unwrap_or(0) == 0 && is_lost_race(error)
}

#[cfg(test)]
mod tests {
    use cdb_client::{Bootstrap, CosmosClient, MasterKey};
    use cdb_emulator::{Effect, Emulator, Fault, OperationKind};
    use cdb_model::{Container, Document, ETag, Stored};
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Document, Serialize, Deserialize, Clone, Debug)]
    #[document(type = "task", id = "{list}:task")]
    struct Task {
        #[document(partition_key)]
        list: String,
        state: String,
    }

    #[derive(Container)]
    enum Lists {
        Task(Task),
    }

    /// Sets the state of a task.
    struct Write {
        container: ContainerClient<Lists>,
        seen: Stored<Task>,
        state: &'static str,
    }

    impl FencedWrite for Write {
        type Container = Lists;
        type Answer = ETag;
        type Error = Error;

        fn container(&self) -> &ContainerClient<Lists> {
            &self.container
        }

        async fn prepare(&mut self, sends: u32) -> Result<Option<Duration>, Error> {
            Ok((sends < 3).then_some(Duration::from_millis(500)))
        }

        async fn send(&self) -> Result<ETag, Error> {
            let task = Task {
                state: self.state.to_owned(),
                ..self.seen.document.clone()
            };
            let written = self.container.run(task.replace().if_match(&self.seen.etag));
            Ok(written.await?.etag)
        }

        async fn find_out(&mut self, latest: &ContainerClient<Lists>) -> Result<Found, Error> {
            Ok(match latest.read(&self.seen).await? {
                Some(found) if found.document.state == self.state => Found::Done,
                Some(found) if found.etag == self.seen.etag => Found::Unchanged,
                _ => Found::Lost,
            })
        }
    }

    /// A task that is open, and the write that ends it.
    async fn open_task() -> (Emulator, Write) {
        let emulator = Emulator::start().await.expect("the emulator starts");
        let client = CosmosClient::builder(emulator.endpoint())
            .credential(MasterKey::new(emulator.key()).expect("a key"))
            .build()
            .expect("a client");
        let container = client
            .database("db")
            .bootstrap::<Lists>("lists", Bootstrap::CreateIfMissing)
            .await
            .expect("the container opens");
        let task = Task {
            list: "today".to_owned(),
            state: "open".to_owned(),
        };
        container.run(task.create()).await.expect("it is created");
        let seen = container.read(&task.key()).await.expect("it is read");
        let write = Write {
            container,
            seen: seen.expect("it exists"),
            state: "done",
        };
        (emulator, write)
    }

    fn refused() -> Effect {
        Effect::error(403, 1014)
    }

    fn late() -> Effect {
        Effect::Delay(Duration::from_secs(600).into())
    }

    #[tokio::test]
    async fn a_write_takes_place_once_whatever_happens_to_a_send() {
        for (effect, answered) in [
            (Effect::Pass, true),
            (Effect::DropRequest, true),
            (late(), true),
            (Effect::StatusAfterEffect { status: 408 }, false),
            (Effect::DropAnswer, false),
        ] {
            let (emulator, mut write) = open_task().await;
            emulator.inject(Fault::once(effect.clone()).on(OperationKind::Replace));
            let fenced = execute_fenced(&mut write).await;
            let Ok(Fenced::Committed(answer)) = fenced else {
                panic!("{effect:?}: {fenced:?}");
            };
            assert_eq!(answer.is_some(), answered, "{effect:?}");
            let again = execute_fenced(&mut write).await;
            assert!(matches!(again, Ok(Fenced::CommittedBefore)), "{again:?}");
        }
    }

    #[tokio::test]
    async fn a_refused_write_has_not_taken_place() {
        let (emulator, mut write) = open_task().await;
        emulator.inject(Fault::script([late(), refused()]).on(OperationKind::Replace));
        let fenced = execute_fenced(&mut write).await;
        assert!(matches!(fenced, Ok(Fenced::Refused(_))), "{fenced:?}");
    }

    #[tokio::test]
    async fn a_write_without_an_answer_ends_after_its_last_send() {
        let (emulator, mut write) = open_task().await;
        emulator.inject(Fault::always(late()).on(OperationKind::Replace));
        let fenced = execute_fenced(&mut write).await;
        assert!(matches!(fenced, Ok(Fenced::Unknown(None))), "{fenced:?}");
    }

    #[tokio::test]
    async fn a_write_after_another_one_is_lost() {
        let (_emulator, mut write) = open_task().await;
        let other = Task {
            state: "withdrawn".to_owned(),
            ..write.seen.document.clone()
        };
        let written = write
            .container
            .run(other.replace().if_match(&write.seen.etag));
        written.await.expect("the other write takes place");
        let fenced = execute_fenced(&mut write).await;
        assert!(matches!(fenced, Ok(Fenced::Lost)), "{fenced:?}");
    }
}
