//! The writer: a thread with a queue, or the caller of an emulator without threads.
//!
//! The writer groups queued work into one transaction, each piece of work in a savepoint of its
//! own, so that one wait for the disk serves the whole group. Work that arrives during the wait
//! forms the next group, so groups grow with the load. In memory there is no wait for a disk, and
//! each piece of work is committed alone.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::protocol::ServiceError;
use crate::store::error::OpenError;
use crate::time::stopwatch;

/// Maximum time to collect a group before it is committed.
const GROUP_TIME: Duration = Duration::from_millis(4);

/// Runs a piece of work, unless its transaction could not begin, and returns the notification of
/// its caller.
type Job = Box<dyn FnOnce(Result<(), ServiceError>) -> Notification + Send>;
/// Notifies a caller that its work is committed, or why it is not.
type Notification = Box<dyn FnOnce(Result<(), ServiceError>) + Send>;

/// What a panic was raised with.
type Panic = dyn Any + Send;

/// The queue of the writer.
#[derive(Debug)]
pub(in crate::store) enum WriteQueue {
    Thread {
        jobs: Mutex<Option<Sender<Job>>>,
        thread: Mutex<Option<WriterThread>>,
    },
    /// Callers run their work themselves. In memory only, because there is no group.
    InPlace,
}

impl WriteQueue {
    /// Starts the thread; `grouped` when commits wait for a disk.
    pub(in crate::store) fn start(
        connection: Arc<Mutex<Connection>>,
        grouped: bool,
    ) -> Result<Self, OpenError> {
        let (sender, receiver) = channel();
        let (running, ended) = channel();
        let writer = Writer {
            connection,
            grouped,
        };
        let thread = std::thread::Builder::new()
            .name("cdb-emulator-writer".to_owned())
            .spawn(move || {
                let _running: Sender<()> = running;
                writer.run(&receiver);
            })
            .map_err(OpenError::storage)?;
        Ok(Self::Thread {
            jobs: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(WriterThread { thread, ended })),
        })
    }

    /// Runs work, and returns when it is committed.
    pub(in crate::store) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move |begun| {
            let result = begun.and_then(|()| {
                let ended = catch_unwind(AssertUnwindSafe(work));
                ended.unwrap_or_else(|panic| Err(ServiceError::internal(describe(&*panic))))
            });
            Box::new(move |committed| {
                // Sending fails when the caller's connection was closed.
                let _ = sender.send(committed.and(result));
            })
        });
        let accepted = match self {
            Self::Thread { jobs, .. } => match &*lock(jobs) {
                Some(jobs) => jobs.send(job).is_ok(),
                None => false,
            },
            Self::InPlace => {
                job(Ok(()))(Ok(()));
                true
            }
        };
        if !accepted {
            return Err(ServiceError::stopping());
        }
        receiver.await.map_err(|_| ServiceError::stopping())?
    }

    /// Stops the thread after the queued work. Returns `false` if it still works after `limit`: it
    /// then ends with its work, or with the process.
    pub(in crate::store) fn close(&self, limit: Duration) -> bool {
        let Self::Thread { jobs, thread } = self else {
            return true;
        };
        drop(lock(jobs).take());
        let mut thread = lock(thread);
        let Some(writer) = thread.take() else {
            return true;
        };
        // Queued work can own the last reference to the store, and a thread cannot join itself.
        if writer.thread.thread().id() == std::thread::current().id() {
            return true;
        }
        // The thread sends nothing. When it ends, its end of the channel is dropped.
        if writer.ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            *thread = Some(writer);
            tracing::warn!("the writer still works after {limit:?}");
            return false;
        }
        if writer.thread.join().is_err() {
            tracing::warn!("the writer thread panicked");
        }
        true
    }
}

/// The thread of the writer.
#[derive(Debug)]
pub(in crate::store) struct WriterThread {
    thread: JoinHandle<()>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The guarded values are valid between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn describe(panic: &Panic) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

/// The connection that writes.
struct Writer {
    connection: Arc<Mutex<Connection>>,
    /// Whether commits wait for a disk.
    grouped: bool,
}

impl Writer {
    /// Runs queued work until the queue is closed.
    fn run(self, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            if self.grouped {
                self.group(job, jobs);
            } else {
                job(Ok(()))(Ok(()));
            }
        }
    }

    /// Runs a piece of work and the work queued after it in one transaction.
    fn group(&self, first: Job, jobs: &Receiver<Job>) {
        let begun = self.execute("BEGIN IMMEDIATE");
        let since = stopwatch();
        let mut notifications = vec![first(begun.clone())];
        while since.elapsed() < GROUP_TIME
            && let Ok(job) = jobs.try_recv()
        {
            notifications.push(job(begun.clone()));
        }
        let committed = self.execute("COMMIT");
        if committed.is_err()
            && let Err(error) = self.execute("ROLLBACK")
        {
            tracing::warn!(%error, "cannot roll back a failed group of writes");
        }
        for notify in notifications {
            notify(committed.clone());
        }
    }

    fn execute(&self, sql: &str) -> Result<(), ServiceError> {
        lock(&self.connection).prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_that_works_on_is_not_waited_for_without_end() {
        let connection = Connection::open_in_memory().unwrap();
        let queue = WriteQueue::start(Arc::new(Mutex::new(connection)), false).unwrap();
        let (proceed, waits) = channel::<()>();
        let WriteQueue::Thread { jobs, .. } = &queue else {
            unreachable!("it has a thread");
        };
        let job: Job = Box::new(move |_| {
            waits.recv().unwrap();
            Box::new(|_| {})
        });
        lock(jobs).as_ref().unwrap().send(job).unwrap();
        assert!(!queue.close(Duration::ZERO));
        proceed.send(()).unwrap();
        assert!(queue.close(Duration::from_secs(3600)));
        assert!(queue.close(Duration::ZERO), "it has ended");
    }
}
