//! What a page of a query touched: the ground of its charge and of its metrics.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::charge;
use crate::index_use::IndexUse;
use crate::route::flag;
use crate::service::{Answer, Asked};

/// Documents that the indexes let through.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Touched {
    documents: usize,
    bytes: usize,
}

impl Touched {
    /// Counts index entries, whose documents nobody has looked at.
    pub(super) fn entries(&mut self, count: usize) {
        self.documents += count;
    }

    /// Counts a document.
    pub(super) fn document(&mut self, body: &str) {
        self.documents += 1;
        self.bytes += body.len();
    }
}

/// How long the steps of a query took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) begun: Instant,
    /// From text to tree.
    pub(super) compiled: Duration,
}

/// The page, charged, and with the metrics that were asked for.
pub(super) fn account(
    asked: &Asked,
    mut answer: Answer,
    (touched, index): (Touched, &IndexUse),
    (ranges, rows): (usize, usize),
    times: Times,
) -> Answer {
    let loaded = if index.covers {
        Touched::default()
    } else {
        touched
    };
    answer.charge = charge::query(&charge::Query {
        ranges,
        index_entries: touched.documents * index.lookups,
        documents: loaded.documents,
        bytes: loaded.bytes,
        returned: answer.body.len(),
    });
    if flag(&asked.headers, "x-ms-documentdb-populatequerymetrics") {
        let metrics = metrics(loaded, (rows, answer.body.len()), times);
        answer = answer.with("x-ms-documentdb-query-metrics", metrics);
    }
    if flag(&asked.headers, "x-ms-cosmos-populateindexmetrics") {
        let utilization = STANDARD.encode(index.to_json().to_string());
        answer = answer.with("x-ms-cosmos-index-utilization", utilization);
    }
    answer
}

/// Names and order: query-metrics, "query execution statistics". The steps of a run are not told apart here.
fn metrics(loaded: Touched, (rows, bytes): (usize, usize), times: Times) -> String {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    let total = times.begun.elapsed();
    let run = total.saturating_sub(times.compiled);
    let of = |number: usize| u32::try_from(number).map_or(f64::from(u32::MAX), f64::from);
    let ratio = if loaded.documents == 0 {
        1.0
    } else {
        (of(rows) / of(loaded.documents)).min(1.0)
    };
    format!(
        "totalExecutionTimeInMs={:.2};queryCompileTimeInMs={:.2};queryLogicalPlanBuildTimeInMs=0.00;\
         queryPhysicalPlanBuildTimeInMs=0.00;queryOptimizationTimeInMs=0.00;VMExecutionTimeInMs={:.2};\
         indexLookupTimeInMs=0.00;documentLoadTimeInMs=0.00;systemFunctionExecuteTimeInMs=0.00;\
         userFunctionExecuteTimeInMs=0.00;retrievedDocumentCount={};retrievedDocumentSize={};\
         outputDocumentCount={rows};outputDocumentSize={bytes};writeOutputTimeInMs=0.00;indexUtilizationRatio={ratio:.2}",
        milliseconds(total),
        milliseconds(times.compiled),
        milliseconds(run),
        loaded.documents,
        loaded.bytes,
    )
}
