//! The thread that writes, and the queue before it.
//!
//! What waits in the queue is carried out in one transaction, each piece of work in a savepoint of its own, and is
//! answered when the transaction is on the disk: one wait for the disk serves all who wait. While it lasts the next ones
//! queue up, so groups are as large as the load is. In memory nothing waits for a disk, and each piece stands alone.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::transformation;
use crate::EmulatorError;
use crate::error::ServiceError;

/// Work done for one group before it is committed: the longest that the first of a group waits for the last.
const GROUP_TIME: Duration = Duration::from_millis(4);

/// Carries out a piece of work, unless there is a reason against it, and returns what tells its caller.
type Job = Box<dyn FnOnce(Result<(), ServiceError>) -> Delivery + Send>;
/// Tells a caller that its work is committed, or why it is not.
type Delivery = Box<dyn FnOnce(Result<(), ServiceError>) + Send>;

/// The way to the thread that writes.
#[derive(Debug)]
pub(super) struct WriteQueue {
    jobs: Mutex<Option<Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl WriteQueue {
    /// Starts the thread. In groups when commits take time.
    pub(super) fn start(
        connection: Arc<Mutex<Connection>>,
        grouped: bool,
    ) -> Result<Self, EmulatorError> {
        let (sender, receiver) = channel();
        let writer = Writer {
            connection,
            jobs: receiver,
            grouped,
        };
        let thread = std::thread::Builder::new()
            .name("cdb-emulator-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(EmulatorError::storage)?;
        Ok(Self {
            jobs: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Carries out work on the thread, and returns when it is committed.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let (teller, told) = oneshot::channel();
        let job: Job = Box::new(move |begun| {
            let result = begun.and_then(|()| {
                let ended = catch_unwind(AssertUnwindSafe(work));
                ended.unwrap_or_else(|panic| Err(ServiceError::internal(describe(&*panic))))
            });
            Box::new(move |committed| {
                // Nobody listens when the connection was closed meanwhile.
                let _ = teller.send(committed.and(result));
            })
        });
        let sent = match &*held(&self.jobs) {
            Some(jobs) => jobs.send(job).is_ok(),
            None => false,
        };
        if !sent {
            return Err(ServiceError::stopping());
        }
        told.await.map_err(|_| ServiceError::stopping())?
    }

    /// Has the thread carry out work that nobody waits for, unless it is ending.
    pub(super) fn send(&self, work: impl FnOnce() -> Result<(), ServiceError> + Send + 'static) {
        let job: Job = Box::new(move |begun| {
            let ended = begun.and_then(|()| {
                let ended = catch_unwind(AssertUnwindSafe(work));
                ended.unwrap_or_else(|panic| Err(ServiceError::internal(describe(&*panic))))
            });
            Box::new(move |committed| {
                if let Err(error) = committed.and(ended) {
                    tracing::warn!(%error, "work in the background was not done");
                }
            })
        });
        if let Some(jobs) = &*held(&self.jobs)
            && jobs.send(job).is_err()
        {
            tracing::debug!("the writer has ended");
        }
    }

    /// Ends the thread after what is in the queue.
    pub(super) fn close(&self) {
        drop(held(&self.jobs).take());
        let thread = held(&self.thread).take();
        // The last piece of work may be the last owner too, and a thread cannot wait for itself.
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::warn!("the writer ended in a panic");
        }
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What they hold is valid between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn describe(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without words".to_owned())
}

/// What the thread works with.
struct Writer {
    connection: Arc<Mutex<Connection>>,
    jobs: Receiver<Job>,
    /// Whether commits take time.
    grouped: bool,
}

impl Writer {
    /// Serves what is asked, and between that rebuilds indexes as long as there are some to rebuild.
    fn run(self) {
        // A former process may have left some.
        let mut rebuilding = true;
        loop {
            let job = if rebuilding {
                self.jobs.try_recv()
            } else {
                self.jobs.recv().map_err(|_| TryRecvError::Disconnected)
            };
            match job {
                Ok(job) if self.grouped => self.group(job),
                Ok(job) => job(Ok(()))(Ok(())),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return,
            }
            rebuilding = self.rebuild().unwrap_or_else(|error| {
                tracing::warn!(%error, "indexes are not rebuilt for now");
                false
            });
        }
    }

    /// Carries out a piece of work and what waits behind it.
    fn group(&self, first: Job) {
        let begun = self.execute("BEGIN IMMEDIATE");
        let since = Instant::now();
        let mut deliveries = vec![first(begun.clone())];
        while since.elapsed() < GROUP_TIME
            && let Ok(job) = self.jobs.try_recv()
        {
            deliveries.push(job(begun.clone()));
        }
        let committed = self.execute("COMMIT");
        if committed.is_err()
            && let Err(error) = self.execute("ROLLBACK")
        {
            tracing::warn!(%error, "a group that failed was not rolled back");
        }
        for deliver in deliveries {
            deliver(committed.clone());
        }
    }

    /// A step of the rebuilding; whether there is more of it.
    fn rebuild(&self) -> Result<bool, ServiceError> {
        let mut connection = held(&self.connection);
        let savepoint = connection.savepoint()?;
        let more = transformation::step(&savepoint)?;
        savepoint.commit()?;
        Ok(more)
    }

    fn execute(&self, sql: &str) -> Result<(), ServiceError> {
        held(&self.connection).prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}
