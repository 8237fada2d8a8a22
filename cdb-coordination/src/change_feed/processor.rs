//! The processor as a value: its handler, its settings, its start and its end.

use std::sync::Arc;

use cdb_client::ContainerClient;
use cdb_client::feed::{ChangeRow, FeedRow, FeedStart, VersionRow};
use cdb_model::Container;
use derive_where::derive_where;
use futures::FutureExt as _;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::assignment::Assignment;
use super::documents::ChangeFeedState;
use super::settings::{ChangeHandlerError, ChangeProcessorConfig, Settings};
use crate::timing::TimingError;

/// Builds a [`ChangeProcessor`].
#[derive_where(Debug)]
pub struct ChangeProcessorBuilder<C> {
    name: String,
    source: ContainerClient<C>,
    state: ContainerClient<ChangeFeedState>,
    config: ChangeProcessorConfig,
}

/// A running change-feed processor: this process's share of the work on the changes of a container.
/// Every process that starts a processor of the same name on the same `state` takes a share.
///
/// Each change is handled at least once, in the order of its physical partition, and so in the order
/// of its partition key. A document that changes again before it is read is handled once, in its
/// newest form; deletions are in the feed of [`start_versions`](ChangeProcessorBuilder::start_versions)
/// only. A handler that fails or panics receives the changes
/// again, with all later ones of its part waiting.
///
/// ```
/// use cdb_client::feed::{FeedRow, FeedStart};
/// use cdb_coordination::ChangeProcessor;
/// use cdb_coordination::change_feed::ChangeProcessorConfig;
/// # use cdb_model::Document as _;
/// # mod feed { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/feed.rs")); }
/// # use feed::{Shop, order, with_feed};
/// # with_feed(async |shop, state| {
/// # let (seen, mut all) = tokio::sync::mpsc::channel(9);
/// # shop.run(order(7).create()).await?;
///
/// let processor = ChangeProcessor::builder("invoices", &shop, &state)
///     .config(ChangeProcessorConfig { start: FeedStart::Beginning, ..Default::default() })
///     .start(move |changes: Vec<FeedRow<Shop>>| {
/// #       let seen = seen.clone();
///         async move {
///             for change in changes {
///                 match change.row?.document { // an error is retried
///                     Shop::Order(order) => println!("order {} is {}", order.number, order.state),
///                     Shop::Message(_) => {}
///                 }
/// #               seen.send(()).await?;
///             }
///             Ok(())
///         }
///     })?;
/// # all.recv().await;
/// processor.stop().await; // after the changes that are being handled
/// # Ok(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct ChangeProcessor {
    stop: CancellationToken,
    work: JoinHandle<()>,
    /// Dropping the processor stops it in the background.
    _stop_on_drop: DropGuard,
}

impl ChangeProcessor {
    /// Begins to build the processor `name` of the changes of `source`. Its position is stored in
    /// `state`, a container for the positions of any number of processors.
    pub fn builder<C: Container>(
        name: impl Into<String>,
        source: &ContainerClient<C>,
        state: &ContainerClient<ChangeFeedState>,
    ) -> ChangeProcessorBuilder<C> {
        ChangeProcessorBuilder {
            name: name.into(),
            source: source.clone(),
            state: state.clone(),
            config: ChangeProcessorConfig::default(),
        }
    }

    /// Stops: waits for the handlers that run, stores their positions, releases the leases and
    /// leaves the members.
    pub async fn stop(self) {
        self.stop.cancel();
        // An error is a panic of a task, which tokio has reported.
        let _ended = self.work.await;
    }
}

impl<C: Container> ChangeProcessorBuilder<C> {
    /// Sets the settings.
    #[must_use]
    pub fn config(mut self, config: ChangeProcessorConfig) -> Self {
        self.config = config;
        self
    }

    /// Starts to process. `handler` receives the next changes of one part, in order; an unreadable
    /// document is an error in its row. Handlers of different parts run concurrently. A handler has no
    /// time limit. It is dropped at an `await` if the lease of its part is lost.
    ///
    /// # Errors
    /// When two durations of the settings do not fit.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn start<F, Fut>(self, handler: F) -> Result<ChangeProcessor, TimingError>
    where
        F: Fn(Vec<FeedRow<C>>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), ChangeHandlerError>> + Send + 'static,
    {
        self.run(handler)
    }

    /// As [`start`](Self::start), with all versions and deletions, each in a row of its own. Begins at
    /// the next change when the processor runs for the first time, whatever the settings say.
    /// A processor keeps its mode: use another name for the other mode, because the positions differ.
    ///
    /// The account needs continuous backups and the feature "All versions and deletes". The service
    /// keeps changes as long as these backups, so a processor that rests longer has to be
    /// [reset](super::reset_feed) to [`FeedStart::Now`].
    ///
    /// # Errors
    /// When two durations of the settings do not fit.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn start_versions<F, Fut>(mut self, handler: F) -> Result<ChangeProcessor, TimingError>
    where
        F: Fn(Vec<VersionRow<C>>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), ChangeHandlerError>> + Send + 'static,
    {
        self.config.start = FeedStart::Now;
        self.run(handler)
    }

    fn run<R, F, Fut>(self, handler: F) -> Result<ChangeProcessor, TimingError>
    where
        R: ChangeRow<C>,
        F: Fn(Vec<R>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), ChangeHandlerError>> + Send + 'static,
    {
        self.config.check()?;
        let settings = Settings {
            name: self.name,
            source: self.source,
            handler: Box::new(move |rows| handler(rows).boxed()),
            config: self.config,
        };
        let stop = CancellationToken::new();
        let assignment = Assignment::new(Arc::new(settings), self.state);
        Ok(ChangeProcessor {
            work: tokio::spawn(assignment.run(stop.clone())),
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
        })
    }
}
