//! A network for tests that pause Tokio's clock (feature `test-support`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use cdb_model::Timestamp;
use http::HeaderValue;
use http::header::DATE;
use tokio::runtime::{Handle, Runtime};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::clock::{http_date_of, machine_now};
use crate::transport::tls::ServerProof;
use crate::transport::{Delivery, HttpRequest, HttpResponse, Network, Transport, TransportError};

/// How long a request takes.
const ROUND_TRIP: Duration = Duration::from_millis(1);

/// How far the date of a request may be ahead of a service with a clock of its own.
const AHEAD: Duration = Duration::from_secs(300);

/// A network for tests that pause Tokio's clock.
///
/// The clock stops during a request, which takes one millisecond of simulated time however slow the
/// machine is. While no request is in flight, Tokio advances the clock to the next timer, so
/// nothing waits. Answers carry the date of the test's clock, and
/// [`clock_of`](crate::account::CosmosClientBuilder::clock_of) starts the client's clock with it. All
/// clients of a test share one value of this type.
///
/// The service must use plain HTTP and follow this [`clock`](Self::clock). Otherwise it refuses
/// requests after five minutes of simulated time, because their dates are in its future.
///
/// ```
/// use std::time::Duration;
///
/// use cdb_client::transport::SimulatedTime;
/// use cdb_client::{CosmosClient, MasterKey};
/// use cdb_emulator::Emulator;
///
/// // For example #[tokio::test(start_paused = true)]
/// #[tokio::main(flavor = "current_thread", start_paused = true)]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let time = SimulatedTime::new();
///     let starting = Emulator::builder().clock(time.clock()).start();
///     let emulator = time.in_real_time(starting).await?;
///     let client = CosmosClient::builder(emulator.endpoint())
///         .credential(MasterKey::new(emulator.key())?)
///         .transport(time.clone())
///         .clock_of(&time)
///         .build()?;
///     let begun = client.now();
///     tokio::time::sleep(Duration::from_secs(86_400)).await; // returns at once
///     assert_eq!(client.now(), begun + Duration::from_secs(86_400));
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct SimulatedTime {
    network: Arc<Network>,
    /// An instant of the test's clock, and the service's time at that instant.
    start: (Instant, Timestamp),
    /// The test's runtime, whose clock is paused.
    runtime: Handle,
    /// Whether the service follows this time.
    followed: Arc<AtomicBool>,
}

impl SimulatedTime {
    /// Starts the service's clock.
    ///
    /// # Panics
    /// When the HTTP client cannot be created, or outside of a Tokio runtime.
    #[expect(clippy::new_without_default, reason = "it starts a clock")]
    pub fn new() -> Self {
        let network =
            Network::new(ServerProof::None, usize::MAX).expect("plain HTTP needs no certificates");
        Self {
            network: Arc::new(network),
            start: (Instant::now(), machine_now()),
            runtime: Handle::current(),
            followed: Arc::default(),
        }
    }

    /// Runs `work` in a Tokio runtime with a running clock, while the clock of the test is stopped.
    /// Tasks that `work` spawns stay in that runtime. Use it to start an emulator.
    ///
    /// # Panics
    /// When `work` panics, or the test's runtime ends.
    pub async fn in_real_time<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let done = run_outside(work).await;
        done.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns a clock that shows this time in all threads, for `Settings::clock`. With it,
    /// a test may last any simulated time.
    pub fn clock(&self) -> impl Fn() -> SystemTime + Send + Sync + use<> {
        self.followed.store(true, Ordering::Relaxed);
        let time = self.clone();
        move || {
            // Tokio reads the clock of the runtime that the thread has entered.
            let _entered = time.runtime.enter();
            UNIX_EPOCH + Duration::from_millis(time.now().as_millis())
        }
    }

    /// Returns the service's time.
    pub(crate) fn now(&self) -> Timestamp {
        let (instant, time) = self.start;
        time + instant.elapsed()
    }
}

/// Runs `work` in a runtime that lives as long as the process. Tokio does not advance a paused
/// clock while a blocking task runs.
fn run_outside<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    static OUTSIDE: OnceLock<Runtime> = OnceLock::new();
    let outside = OUTSIDE.get_or_init(|| Runtime::new().expect("threads can be started"));
    tokio::task::spawn_blocking(|| outside.block_on(work))
}

#[async_trait]
impl Transport for SimulatedTime {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        assert!(
            self.followed.load(Ordering::Relaxed) || self.start.0.elapsed() < AHEAD,
            "the service's clock is five minutes behind; start it with `.clock(time.clock())`"
        );
        let network = self.network.clone();
        let sending = run_outside(async move { network.send(request).await });
        let answer = sending.await.map_err(|error| TransportError {
            delivery: Delivery::Unknown,
            message: "the test's runtime has ended".to_owned(),
            source: Some(Box::new(error)),
        });
        // As over a real network, a caller never gets two answers at the same instant.
        tokio::time::sleep(ROUND_TRIP).await;
        let mut answer = answer??;
        let date = HeaderValue::from_str(&http_date_of(self.now()));
        answer.headers.insert(DATE, date.expect("a date is ASCII"));
        Ok(answer)
    }

    fn reconnect(&self) {
        self.network.reconnect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CosmosClient, MasterKey};
    use cdb_emulator::Emulator;

    const SLOW: Duration = Duration::from_millis(17);

    fn client(emulator: &Emulator, time: &SimulatedTime) -> CosmosClient {
        let key = MasterKey::new(emulator.key()).unwrap();
        let builder = CosmosClient::builder(emulator.endpoint()).credential(key);
        let builder = builder.transport(time.clone()).clock_of(time);
        builder.build().unwrap()
    }

    async fn ask(client: &CosmosClient) {
        let refused = client.database("nowhere").delete().await;
        assert!(refused.unwrap_err().is_not_found());
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_follows_simulated_time_answers_after_days() {
        let time = SimulatedTime::new();
        let emulator = Emulator::builder().clock(time.clock()).start();
        let emulator = time.in_real_time(emulator).await.unwrap();
        let client = client(&emulator, &time);
        for _ in 0..7 {
            tokio::time::sleep(Duration::from_secs(86_400)).await;
            ask(&client).await;
        }
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "start it with `.clock(time.clock())`")]
    async fn a_request_after_five_minutes_to_a_service_with_its_own_clock_panics() {
        let time = SimulatedTime::new();
        let emulator = time.in_real_time(Emulator::start()).await.unwrap();
        tokio::time::sleep(AHEAD).await;
        ask(&client(&emulator, &time)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_takes_a_millisecond_whatever_the_real_latency() {
        let time = SimulatedTime::new();
        let emulator = time.in_real_time(Emulator::builder().latency(SLOW).start());
        let emulator = emulator.await.unwrap();
        let first = client(&emulator, &time);
        let begun = Instant::now();
        tokio::join!(ask(&first), ask(&first), ask(&first));
        assert_eq!(begun.elapsed(), ROUND_TRIP);

        tokio::time::sleep(Duration::from_secs(60)).await;
        let second = client(&emulator, &time);
        for _ in 0..100 {
            assert_eq!(first.now(), second.now());
            tokio::join!(ask(&first), ask(&second));
            tokio::time::sleep(SLOW).await;
        }
    }
}
