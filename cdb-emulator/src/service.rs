//! Requests to answers, without sockets.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{HeaderMap, Method};

use crate::entra::Identities;
use crate::error::ServiceError;
use crate::observe::{Answered, OperationKind, RequestLog};
use crate::route::{self, Resource, header};
use crate::store::offers::Offer;
use crate::store::{Lane, Store};
use crate::throughput::Throughput;
use crate::{auth, op};

/// A request as it came in.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Asked {
    /// What kind of operation it is, as far as its head tells.
    pub(crate) fn kind(&self) -> OperationKind {
        Resource::parse(&self.path).map_or(OperationKind::Metadata, |resource| {
            route::kind(&self.method, &resource, &self.headers)
        })
    }
}

/// An answer as it goes out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// Request units.
    pub(crate) charge: f64,
}

impl Answer {
    /// An answer with a JSON body.
    pub(crate) fn json(status: u16, body: &serde_json::Value) -> Self {
        Self {
            status,
            body: body.to_string().into_bytes(),
            ..Self::default()
        }
    }

    /// An answer without a body.
    pub(crate) fn empty(status: u16) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }

    /// Adds a header.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sets the charge.
    pub(crate) fn charged(mut self, charge: f64) -> Self {
        self.charge = charge;
        self
    }
}

/// The server without its sockets.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) store: Store,
    pub(crate) settings: Settings,
    pub(crate) log: Mutex<RequestLog>,
    pub(crate) throughput: Throughput,
}

/// What the account is like.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// The decoded account key.
    pub(crate) key: Vec<u8>,
    /// Whose Entra ID tokens are accepted.
    pub(crate) identities: Identities,
    /// How many physical partitions a new container gets.
    pub(crate) physical_partitions: u32,
    /// Request units per second of a container whose creator says nothing; unlimited when `None`.
    pub(crate) throughput: Option<u32>,
    /// Where clients reach the account.
    pub(crate) endpoint: String,
}

impl Service {
    pub(crate) fn new(store: Store, settings: Settings) -> Self {
        let throughput = Throughput::new(settings.throughput);
        // When the offers cannot be read, every request finds out for itself.
        if Offer::any_replaced(&store.lock()).unwrap_or(true) {
            throughput.limit_by_offers();
        }
        Self {
            store,
            settings,
            log: Mutex::default(),
            throughput,
        }
    }

    /// Answers a request. What it has written is kept when this returns, and also when nobody waits for it any more.
    pub(crate) async fn answer(self: &Arc<Self>, asked: &Arc<Asked>) -> Answer {
        let answer = self.carry_out(asked).await;
        self.finish(asked, answer.unwrap_or_else(|error| refusal(&error)))
    }

    /// Refuses a request because a fault says so.
    pub(crate) fn refuse(
        &self,
        asked: &Asked,
        status: u16,
        substatus: u32,
        retry_after_ms: Option<u64>,
    ) -> Answer {
        let mut error = ServiceError::new(status, substatus, "Injected", "A fault was injected.");
        error.retry_after_ms = retry_after_ms;
        self.finish(asked, refusal(&error))
    }

    /// Refuses a request that never became whole.
    pub(crate) fn turn_down(&self, asked: &Asked, error: &ServiceError) -> Answer {
        self.finish(asked, refusal(error))
    }

    async fn carry_out(self: &Arc<Self>, asked: &Arc<Asked>) -> Result<Answer, ServiceError> {
        let resource = Resource::parse(&asked.path)?;
        let kind = route::kind(&asked.method, &resource, &asked.headers);
        self.authorize(asked, &resource, kind)?;
        let lane = match kind {
            OperationKind::Read => Lane::Glance,
            OperationKind::Query | OperationKind::Feed => Lane::Scan,
            _ => Lane::Write,
        };
        let (service, asked) = (self.clone(), asked.clone());
        let work = move || op::dispatch(&service, &asked, &resource);
        self.store.run(lane, work).await
    }

    fn authorize(
        &self,
        asked: &Asked,
        resource: &Resource,
        kind: OperationKind,
    ) -> Result<(), ServiceError> {
        let settings = &self.settings;
        let token = auth::token(&asked.headers).filter(|_| !settings.identities.is_empty());
        match token {
            Some(token) => {
                let request = (&asked.method, resource, kind);
                let here = (&*settings.endpoint, now());
                settings.identities.verify(&token, request, here)
            }
            None => auth::verify(
                &settings.key,
                &asked.method,
                resource,
                &asked.headers,
                now(),
            ),
        }
    }

    fn finish(&self, asked: &Asked, answer: Answer) -> Answer {
        let answered = Answered {
            status: answer.status,
            charge: answer.charge,
            bytes_in: asked.body.len() as u64,
            bytes_out: answer.body.len() as u64,
        };
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(asked.kind(), &answered);
        let activity = header(&asked.headers, "x-ms-activity-id")
            .map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
        let charge = format!("{:.2}", answer.charge);
        answer
            .with("x-ms-activity-id", activity)
            .with("x-ms-request-charge", charge)
            .with("content-type", "application/json")
            .with("x-ms-version", "2020-07-15")
    }

    /// Notes the SQL text of a query.
    pub(crate) fn note_query(&self, sql: &str) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.note_query(sql);
    }
}

/// The answer that says why not.
pub(crate) fn refusal(error: &ServiceError) -> Answer {
    let mut answer = Answer {
        status: error.status,
        body: error.body(),
        // A request that the budget refuses takes nothing from it.
        charge: if error.status == 429 {
            0.0
        } else {
            crate::charge::REFUSED
        },
        ..Answer::default()
    };
    if error.substatus != 0 {
        answer = answer.with("x-ms-substatus", error.substatus.to_string());
    }
    if let Some(after) = error.retry_after_ms {
        answer = answer.with("x-ms-retry-after-ms", after.to_string());
    }
    answer
}

/// The server's clock.
#[expect(
    clippy::disallowed_methods,
    reason = "the emulator is the service, and its clock decides"
)]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

/// The server's clock in seconds since the epoch, as `_ts` has it.
pub(crate) fn now_secs() -> i64 {
    let since = now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
