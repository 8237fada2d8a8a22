//! The inputs of the charge and of the metrics of a query page.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::op::charge;
use crate::plan::IndexUse;
use crate::protocol::{Request, Response, flag};

/// The documents that match the conditions which indexes answer.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::op) struct CostInputs {
    documents: usize,
    bytes: usize,
}

impl CostInputs {
    /// Counts index entries whose documents were not loaded.
    pub(in crate::op) fn entries(&mut self, count: usize) {
        self.documents += count;
    }

    /// Counts a loaded document.
    pub(in crate::op) fn document(&mut self, body: &str) {
        self.documents += 1;
        self.bytes += body.len();
    }
}

/// The times of a query.
#[derive(Clone, Copy, Debug)]
pub(in crate::op) struct Times {
    pub(in crate::op) begun: Instant,
    /// The time of parsing.
    pub(in crate::op) compiled: Duration,
}

/// What the charge and the metrics of a page depend on.
#[derive(Debug)]
pub(in crate::op) struct PageCost {
    pub(in crate::op) inputs: CostInputs,
    /// The physical partitions that were read.
    pub(in crate::op) ranges: usize,
    pub(in crate::op) rows: usize,
    pub(in crate::op) times: Times,
}

/// Sets the charge of a page, and adds the requested metrics.
pub(in crate::op) fn with_cost(
    request: &Request,
    mut response: Response,
    index: &IndexUse,
    cost: &PageCost,
) -> Response {
    let inputs = cost.inputs;
    let loaded = if index.covers {
        CostInputs::default()
    } else {
        inputs
    };
    response.charge = charge::query(&charge::QueryCost {
        ranges: cost.ranges,
        index_entries: inputs.documents * index.lookups,
        documents: loaded.documents,
        bytes: loaded.bytes,
        returned: response.body.len(),
    });
    if flag(&request.headers, "x-ms-documentdb-populatequerymetrics") {
        let metrics = metrics(loaded, response.body.len(), cost);
        response = response.with("x-ms-documentdb-query-metrics", metrics);
    }
    if flag(&request.headers, "x-ms-cosmos-populateindexmetrics") {
        let utilization = STANDARD.encode(index.to_json().to_string());
        response = response.with("x-ms-cosmos-index-utilization", utilization);
    } else if flag(&request.headers, "x-ms-cosmos-populateindexmetrics-v2") {
        let utilization = index.to_json_v2().to_string();
        let utilization = utf8_percent_encode(&utilization, NON_ALPHANUMERIC).to_string();
        response = response.with("x-ms-cosmos-index-utilization", utilization);
    }
    response
}

/// Returns the query metrics. Names and order: query-metrics, "query execution statistics". Only
/// the total time and the time of parsing are measured.
fn metrics(loaded: CostInputs, bytes: usize, cost: &PageCost) -> String {
    let (rows, times) = (cost.rows, cost.times);
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
