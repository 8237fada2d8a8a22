//! Spans, events and metrics of calls, by OpenTelemetry's semantic conventions for Azure Cosmos DB.
//!
//! Ids of items are omitted, because they are data.

use std::time::Duration;

use metrics::{Label, counter, histogram};
use tracing::{Span, debug, field, info_span};

use crate::error::{Error, ErrorKind, ResponseStatus, Result};
use crate::protocol::{Accepted, Outcome, Request};

/// `db.system.name`.
const SYSTEM: &str = "azure.cosmosdb";

/// Creates the span of a call with all its attempts.
pub(crate) fn call_span(request: &Request) -> Span {
    let (database, container) = names(&request.resource.link);
    info_span!(
        "cosmosdb",
        otel.name = request.kind.name(),
        otel.kind = "client",
        otel.status_code = field::Empty,
        db.system.name = SYSTEM,
        db.operation.name = request.kind.name(),
        db.namespace = database,
        db.collection.name = container,
        db.response.status_code = field::Empty,
        error.type = field::Empty,
        azure.cosmosdb.connection.mode = "gateway",
        azure.cosmosdb.response.sub_status_code = field::Empty,
        azure.cosmosdb.operation.request_charge = field::Empty,
        azure.cosmosdb.request.body.size = request.body.len(),
        cdb.attempts = field::Empty,
    )
}

/// Returns the names of database and container in `dbs/a/colls/b/…`.
fn names(link: &str) -> (&str, &str) {
    let mut parts = link.split('/');
    let database = parts.nth(1).unwrap_or("");
    let container = parts.nth(1).unwrap_or("");
    (database, container)
}

/// Reports that an attempt failed and another follows.
pub(crate) fn retrying(outcome: &Outcome, attempts: u32, delay: Duration) {
    debug!(?outcome, attempts, ?delay, "retrying");
    let status = match outcome {
        Outcome::Answered { status, .. } => Some(*status),
        Outcome::NoAnswer(_) => None,
    };
    counter!("cdb.client.retries", "db.response.status_code" => code(status)).increment(1);
}

fn code(status: Option<ResponseStatus>) -> String {
    status.map_or_else(|| "none".to_owned(), |status| status.code.to_string())
}

/// Returns the value of `error.type`: the status, or the kind of error.
fn error_type(error: &Error) -> String {
    match error.status() {
        Some(status) => status.code.to_string(),
        None => format!("{:?}", error.kind()),
    }
}

/// Whether the span of the call has an error status. The expected results of conditional writes and
/// reads are not errors.
fn is_failure(error: &Error) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::Conflict | ErrorKind::PreconditionFailed
    )
}

/// Records the result of a call.
pub(crate) fn call_ended(
    span: &Span,
    request: &Request,
    attempts: u32,
    charge: f64,
    elapsed: Duration,
    result: &Result<Accepted>,
) {
    let status = match result {
        Ok(response) => Some(response.status),
        Err(error) => error.status(),
    };
    if let Some(status) = status {
        span.record("db.response.status_code", status.code);
        span.record("azure.cosmosdb.response.sub_status_code", status.sub);
    }
    span.record("azure.cosmosdb.operation.request_charge", charge);
    span.record("cdb.attempts", attempts);
    let mut labels = labels(request, status);
    if let Err(error) = result {
        span.record("error.type", error_type(error));
        if is_failure(error) {
            span.record("otel.status_code", "ERROR");
        }
        span.in_scope(|| debug!(%error, "call failed"));
        labels.push(Label::new("error.type", error_type(error)));
    }
    histogram!("db.client.operation.duration", labels.iter()).record(elapsed.as_secs_f64());
    histogram!(
        "azure.cosmosdb.client.operation.request_charge",
        labels.iter()
    )
    .record(charge);
}

fn labels(request: &Request, status: Option<ResponseStatus>) -> Vec<Label> {
    let (database, container) = names(&request.resource.link);
    vec![
        Label::from_static_parts("db.system.name", SYSTEM),
        Label::new("db.namespace", database.to_owned()),
        Label::new("db.collection.name", container.to_owned()),
        Label::from_static_parts("db.operation.name", request.kind.name()),
        Label::new("db.response.status_code", code(status)),
    ]
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::Method;
    use metrics::{
        Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString,
        Unit,
    };

    use super::*;
    use crate::error::RequestKind;
    use crate::protocol::Resource;

    /// Records every value of every histogram as text.
    #[derive(Default)]
    struct Recorded(Arc<Mutex<Vec<String>>>);

    struct RecordedHistogram {
        key: Key,
        values: Arc<Mutex<Vec<String>>>,
    }

    impl HistogramFn for RecordedHistogram {
        fn record(&self, value: f64) {
            let labels: Vec<String> = self
                .key
                .labels()
                .map(|label| format!("{}={}", label.key(), label.value()))
                .collect();
            let line = format!("{}{{{}}} {value}", self.key.name(), labels.join(","));
            self.values.lock().unwrap().push(line);
        }
    }

    impl Recorder for Recorded {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            Counter::noop()
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }

        fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::from_arc(Arc::new(RecordedHistogram {
                key: key.clone(),
                values: self.0.clone(),
            }))
        }
    }

    #[test]
    fn every_call_records_its_duration_and_charge() {
        let recorded = Recorded::default();
        let item = Resource::container("db", "c").item("a").unwrap();
        let request = Request::new(RequestKind::Read, Method::GET, item);
        let result = Err(Error::new(ErrorKind::Unavailable, "no answer"));
        metrics::with_local_recorder(&recorded, || {
            let elapsed = Duration::from_millis(250);
            call_ended(&call_span(&request), &request, 2, 1.5, elapsed, &result);
        });
        let labels = "{db.system.name=azure.cosmosdb,db.namespace=db,db.collection.name=c,\
                      db.operation.name=read_item,db.response.status_code=none,error.type=Unavailable}";
        assert_eq!(
            *recorded.0.lock().unwrap(),
            [
                format!("db.client.operation.duration{labels} 0.25"),
                format!("azure.cosmosdb.client.operation.request_charge{labels} 1.5"),
            ]
        );
    }

    #[test]
    fn an_expected_refusal_does_not_fail_the_span() {
        for (kind, fails) in [
            (ErrorKind::PreconditionFailed, false),
            (ErrorKind::Conflict, false),
            (ErrorKind::NotFound, false),
            (ErrorKind::Throttled, true),
            (ErrorKind::Forbidden, true),
        ] {
            assert_eq!(is_failure(&Error::new(kind, "no")), fails, "{kind:?}");
        }
    }

    #[test]
    fn database_and_container_are_read_from_the_link() {
        assert_eq!(names("dbs/a/colls/b/docs/c"), ("a", "b"));
        assert_eq!(names("dbs/a"), ("a", ""));
        assert_eq!(names(""), ("", ""));
    }
}
