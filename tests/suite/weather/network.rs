//! A network with several rules at a time, each for some physical partitions, kinds of requests and a
//! share of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cdb_client::transport::{
    HttpRequest, HttpResponse, SimulatedTime, Transport, TransportError, async_trait,
};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use cdb_tests::Backend;

use crate::network::Kind;
use crate::silence::Silence;

/// What happens to a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// Its answer arrives only after this time.
    AnsweredLate(Duration),
    /// It is not sent and gets no answer.
    Silent,
    /// A copy of it arrives after this time if it was refused by 429 or 503.
    CopiedWhenRefused(Duration),
}

#[derive(Clone, Debug)]
struct Rule {
    concerns: Option<Silence>,
    kind: Kind,
    share: f64,
    what: What,
}

/// The rules, and the requests that were sent.
#[derive(Debug, Default)]
struct Inner {
    rules: Vec<Rule>,
    random: u64,
    copied: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Rules(Arc<Mutex<Inner>>);

impl Rules {
    pub(super) fn seeded(seed: u64) -> Self {
        let rules = Self::default();
        rules.inner().random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        rules
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn provider(
        &self,
        backend: &Backend,
        change: impl FnOnce(&mut CosmosDBProviderConfig),
    ) -> CosmosDBProvider {
        let through = |time| Ruled {
            rules: self.clone(),
            time,
        };
        let opened = backend.provider_through(change, through).await;
        opened.expect("not on an account")
    }

    /// Adds a rule for a share of the requests of a kind to these physical partitions.
    pub(super) fn add(
        &self,
        ranges: &[&str],
        instances: &[(String, String)],
        kind: Kind,
        share: f64,
        what: What,
    ) {
        for range in ranges {
            let within = instances.iter().filter(|(_, at)| at == range);
            let concerns = Silence::of(range, within.map(|(instance, _)| instance));
            self.inner().rules.push(Rule {
                concerns: Some(concerns),
                kind,
                share,
                what,
            });
        }
    }

    /// Adds a rule for a share of all requests of a kind.
    pub(super) fn add_everywhere(&self, kind: Kind, share: f64, what: What) {
        self.inner().rules.push(Rule {
            concerns: None,
            kind,
            share,
            what,
        });
    }

    pub(super) fn clear(&self) {
        self.inner().rules.clear();
    }

    /// The number of copies that were sent.
    pub(super) fn copied(&self) -> usize {
        self.inner().copied
    }

    /// What happens to a request.
    fn next(&self, request: &HttpRequest) -> Vec<What> {
        let mut inner = self.inner();
        let rules = inner.rules.clone();
        let mut found = Vec::new();
        for rule in rules {
            let concerned = rule.concerns.as_ref();
            if !concerned.is_none_or(|silence| silence.concerns(request)) || !(rule.kind)(request) {
                continue;
            }
            inner.random ^= inner.random << 13;
            inner.random ^= inner.random >> 7;
            inner.random ^= inner.random << 17;
            let drawn = u32::try_from(inner.random >> 32).unwrap_or(u32::MAX);
            let drawn = f64::from(drawn) / f64::from(u32::MAX);
            if drawn < rule.share {
                found.push(rule.what);
            }
        }
        found
    }
}

#[derive(Debug)]
struct Ruled {
    rules: Rules,
    time: SimulatedTime,
}

impl Ruled {
    fn copy(&self, request: &HttpRequest, after: Duration) {
        self.rules.inner().copied += 1;
        let (service, request) = (self.time.clone(), request.clone());
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            service.send(request).await
        });
    }
}

#[async_trait]
impl Transport for Ruled {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let happens = self.rules.next(&request);
        for what in &happens {
            if matches!(what, What::Silent) {
                std::future::pending::<()>().await;
            }
        }
        let answer = self.time.send(request.clone()).await;
        for what in happens {
            match what {
                What::AnsweredLate(delay) => tokio::time::sleep(delay).await,
                What::CopiedWhenRefused(after) => {
                    let refused = |answer: &HttpResponse| matches!(answer.status, 429 | 503);
                    if answer.as_ref().is_ok_and(refused) {
                        self.copy(&request, after);
                    }
                }
                What::Silent => {}
            }
        }
        answer
    }
}
