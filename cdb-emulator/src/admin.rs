//! `/_admin/…`: the Rust API of [`Emulator`](crate::Emulator) for programs in any language.

use std::sync::PoisonError;
use std::time::Duration;

use http::Method;
use serde::{Deserialize, Serialize};

use crate::error::ServiceError;
use crate::fault::{Fault, FaultPlan};
use crate::index_build::IndexBuild;
use crate::observe::RequestLog;
use crate::op;
use crate::regions::Failover;
use crate::replicas::ReplicaLag;
use crate::request::Request;
use crate::response::Response;
use crate::route::ContainerName;
use crate::server_state::ServerState;
use crate::store::Lane;

/// Responds to a request below `/_admin`.
pub(crate) async fn serve_controls(
    server: &ServerState,
    request: &Request,
) -> Result<Response, ServiceError> {
    match request.path.as_str() {
        "/_admin/faults" => faults(server, request),
        "/_admin/requests" => requests(server, &request.method),
        "/_admin/split" => split(server, request).await,
        "/_admin/failover" => failover(server, request),
        "/_admin/regions" => regions(server, request),
        "/_admin/replicas" => replicas(server, request).await,
        "/_admin/indexes" => indexes(server, request).await,
        _ => Err(ServiceError::new(
            404,
            0,
            "NotFound",
            "Use /_admin/faults, /_admin/requests, /_admin/split, /_admin/failover, /_admin/regions, /_admin/indexes or /_admin/replicas.",
        )),
    }
}

fn faults(server: &ServerState, request: &Request) -> Result<Response, ServiceError> {
    match request.method {
        Method::GET => {}
        Method::POST => server.faults.apply(checked(&request.body)?),
        Method::DELETE => server.faults.clear(),
        _ => {
            return Err(ServiceError::method_not_allowed(
                &request.method,
                "GET, POST and DELETE",
            ));
        }
    }
    Response::typed(&server.faults.all())
}

/// Reads a plan and checks it.
fn checked(body: &[u8]) -> Result<FaultPlan, ServiceError> {
    let plan: FaultPlan = serde_json::from_slice(body)?;
    plan.check().map_err(ServiceError::bad_request)?;
    Ok(plan)
}

fn requests(server: &ServerState, method: &Method) -> Result<Response, ServiceError> {
    let log = &server.service.log;
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    match *method {
        Method::GET => {}
        Method::DELETE => *log = RequestLog::default(),
        _ => return Err(ServiceError::method_not_allowed(method, "GET and DELETE")),
    }
    Response::typed(&*log)
}

/// The body of `POST /_admin/split`: the physical partition to split.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Split {
    database: String,
    container: String,
    range: String,
    /// The time during which the partition and its children respond with 410/1007.
    #[serde(default)]
    duration_ms: u64,
}

/// The response of `/_admin/split`: the ids of the two halves.
#[derive(Debug, Serialize)]
struct Halves {
    children: [String; 2],
}

async fn split(server: &ServerState, request: &Request) -> Result<Response, ServiceError> {
    if request.method != Method::POST {
        return Err(ServiceError::method_not_allowed(&request.method, "POST"));
    }
    let at: Split = serde_json::from_slice(&request.body)?;
    let splitter = server.service.clone();
    let name = ContainerName::new(&at.database, &at.container);
    let range = at.range.clone();
    let work = move || op::ranges::split(&splitter, &name, &range);
    let children = server.service.store.run(Lane::Write, work).await?;
    if at.duration_ms > 0 {
        let incomplete =
            Fault::splitting(&at.range, &children).in_container(&at.database, &at.container);
        let duration = Duration::from_millis(at.duration_ms);
        server.faults.add(incomplete.lasting(duration));
    }
    Response::typed(&Halves { children })
}

fn failover(server: &ServerState, request: &Request) -> Result<Response, ServiceError> {
    if request.method != Method::POST {
        return Err(ServiceError::method_not_allowed(&request.method, "POST"));
    }
    let failover: Failover = serde_json::from_slice(&request.body)?;
    let regions = &server.service.regions;
    regions
        .failover(&failover)
        .map_err(ServiceError::bad_request)?;
    Response::typed(&regions.all())
}

/// The body of `POST /_admin/regions`: changes of the regions, in this order.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RegionChanges {
    multiple_write_locations: Option<bool>,
    restore: Option<String>,
    remove: Option<String>,
    #[serde(default)]
    move_global_endpoint: bool,
}

fn regions(server: &ServerState, request: &Request) -> Result<Response, ServiceError> {
    let regions = &server.service.regions;
    match request.method {
        Method::GET => {}
        Method::POST => {
            let changes: RegionChanges = serde_json::from_slice(&request.body)?;
            if let Some(enabled) = changes.multiple_write_locations {
                regions.set_multiple_write_locations(enabled);
            }
            for (name, removed) in [(changes.restore, false), (changes.remove, true)] {
                if let Some(name) = name {
                    let result = regions.set_removed(&name, removed);
                    result.map_err(ServiceError::bad_request)?;
                }
            }
            if changes.move_global_endpoint {
                regions.move_global_endpoint();
            }
        }
        _ => {
            return Err(ServiceError::method_not_allowed(
                &request.method,
                "GET and POST",
            ));
        }
    }
    Response::typed(&regions.all())
}

/// The body of `POST /_admin/indexes`: the duration of index transformations, or the progress of
/// one container.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum IndexChange {
    Build {
        build: IndexBuild,
    },
    Progress {
        database: String,
        container: String,
        progress: u8,
    },
}

async fn indexes(server: &ServerState, request: &Request) -> Result<Response, ServiceError> {
    let service = &server.service;
    match request.method {
        Method::GET => {}
        Method::POST => match serde_json::from_slice(&request.body)? {
            IndexChange::Build { build } => service.index_builds.set_pace(build),
            IndexChange::Progress {
                database,
                container,
                progress,
            } => {
                let of = service.clone();
                let name = ContainerName {
                    database,
                    container,
                };
                let work = move || op::set_index_progress(&of, &name, progress);
                service.store.run(Lane::Point, work).await?;
            }
        },
        _ => {
            return Err(ServiceError::method_not_allowed(
                &request.method,
                "GET and POST",
            ));
        }
    }
    Response::typed(&serde_json::json!({ "build": service.index_builds.pace() }))
}

/// The body of `POST /_admin/replicas`. Absent fields stay as they are.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReplicaChanges {
    lag: Option<ReplicaLag>,
    ignore_latest_committed: Option<bool>,
}

/// The response of `/_admin/replicas`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplicasState {
    lag: Option<ReplicaLag>,
    ignore_latest_committed: bool,
}

async fn replicas(server: &ServerState, request: &Request) -> Result<Response, ServiceError> {
    let service = &server.service;
    let set = async |lag: Option<ReplicaLag>| {
        let of = service.clone();
        let work = move || of.set_replica_lag(lag);
        service.store.run(Lane::Write, work).await
    };
    match request.method {
        Method::GET => {}
        Method::POST => {
            let changes: ReplicaChanges = serde_json::from_slice(&request.body)?;
            if let Some(lag) = changes.lag {
                lag.check().map_err(ServiceError::bad_request)?;
                set(Some(lag)).await?;
            }
            if let Some(ignored) = changes.ignore_latest_committed {
                service.replicas.ignore_strategy(ignored);
            }
        }
        Method::DELETE => set(None).await?,
        _ => {
            let allowed = "GET, POST and DELETE";
            return Err(ServiceError::method_not_allowed(&request.method, allowed));
        }
    }
    Response::typed(&ReplicasState {
        lag: service.replicas.lag(),
        ignore_latest_committed: service.replicas.ignores_strategy(),
    })
}
