//! The JSON endpoints of the page. They return the answers of the commands.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use cdb_client::query::Continuation;
use cdb_model::Timestamp;
use cdb_provider::documents::Status;
use cdb_provider::observe::{Group, InstanceQuery, Overview, Window};
use futures::try_join;
use serde::{Deserialize, Serialize};

use super::state::Dashboard;
use crate::exit::{Exit, Failure};
use crate::model::messages::{Filter, MessageDetail, MessageName, MessagePage, PageStart};
use crate::view::instances::{self, attribute_filter, detail, history, tree};
use crate::view::messages::change_feed;
use crate::view::queues::backlog;

/// The maximum number of rows of a page.
const MAX_ROWS: usize = 500;

/// The number of rows of a page that the page does not choose.
const ROWS: usize = 50;

/// The number of events of a page of a history.
const EVENTS: usize = 1_000;

type App = State<Arc<Dashboard>>;
type Answer<T> = Result<Json<T>, Failure>;

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct ErrorBody {
            error: String,
        }
        let status = match self.exit {
            Exit::Finding => StatusCode::NOT_FOUND,
            Exit::Usage => StatusCode::BAD_REQUEST,
            Exit::Ok | Exit::Service => StatusCode::BAD_GATEWAY,
        };
        let error = self.message;
        (status, Json(ErrorBody { error })).into_response()
    }
}

/// The container, the model and the mode of the page.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct About {
    database: String,
    container: String,
    model: &'static str,
    actions: bool,
    /// The views of what the container holds.
    views: Vec<&'static str>,
}

pub(super) async fn about(State(dashboard): App) -> Json<About> {
    let container = &dashboard.holdings.container;
    Json(About {
        database: container.database().to_owned(),
        container: container.name().to_owned(),
        model: dashboard.holdings.model,
        actions: dashboard.allows_actions,
        views: dashboard.views(),
    })
}

/// The filters of a list, from the page's address.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Filters {
    status: Option<String>,
    parent: Option<String>,
    orchestration: Option<String>,
    version: Option<String>,
    custom_status: Option<String>,
    text: Option<String>,
    #[serde(rename = "where")]
    attributes: Option<String>,
    after: Option<Timestamp>,
    before: Option<Timestamp>,
    #[serde(default)]
    roots: bool,
    #[serde(default)]
    oldest_first: bool,
    from: Option<Continuation>,
    limit: Option<usize>,
}

impl Filters {
    fn filter(&self) -> Result<InstanceQuery, Failure> {
        let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let attributes = self.attributes.as_deref().unwrap_or_default();
        Ok(InstanceQuery {
            statuses: match text(&self.status).map(Status::from) {
                Some(Status::Running) => instances::RUNNING.to_vec(),
                status => status.into_iter().collect(),
            },
            parent: text(&self.parent),
            roots: self.roots,
            created_after: self.after,
            created_before: self.before,
            ended_before: None,
            attributes: attribute_filter::parse_list(attributes).map_err(Failure::usage)?,
            sort: Vec::new(),
            oldest_first: self.oldest_first,
            orchestration: text(&self.orchestration),
            version: text(&self.version),
            custom_status: text(&self.custom_status),
            text: text(&self.text),
            paused: false,
            held: false,
        })
    }
}

/// A page of instances, with the number of their children.
#[derive(Serialize)]
pub(super) struct InstanceList {
    #[serde(flatten)]
    page: instances::Page,
    /// The number of children by id. `None` when there are too many to count.
    children: Option<BTreeMap<String, usize>>,
    examined: usize,
    now: Timestamp,
}

pub(super) async fn instances(
    State(dashboard): App,
    Query(filters): Query<Filters>,
) -> Answer<InstanceList> {
    let rows = filters.limit.unwrap_or(50).clamp(1, MAX_ROWS);
    let orchestrations = dashboard.orchestrations()?;
    let filter = filters.filter()?;
    let page = instances::list_with_waits(orchestrations, &filter, rows, filters.from);
    let page = page.await?;
    let ids: Vec<_> = page.instances.iter().map(|row| row.id.clone()).collect();
    Ok(Json(InstanceList {
        children: orchestrations.provider.observe().child_counts(ids).await?,
        examined: page.examined,
        page,
        now: orchestrations.container.now(),
    }))
}

/// The span of time of the overview.
#[derive(Deserialize)]
pub(super) struct Span {
    #[serde(default)]
    window: Window,
}

pub(super) async fn overview(
    State(dashboard): App,
    Query(Span { window }): Query<Span>,
) -> Answer<Overview> {
    let observe = dashboard.orchestrations()?.provider.observe();
    Ok(Json(
        observe.overview(window, &dashboard.past_counts).await?,
    ))
}

pub(super) async fn instance(
    State(dashboard): App,
    Path(id): Path<String>,
) -> Answer<detail::Detail> {
    let orchestrations = dashboard.orchestrations()?;
    Ok(Json(detail::read(orchestrations, &id).await?))
}

/// The requested events.
#[derive(Deserialize)]
pub(super) struct EventWindow {
    execution: Option<u64>,
    #[serde(default)]
    skip: usize,
}

pub(super) async fn history(
    State(dashboard): App,
    Path(id): Path<String>,
    Query(window): Query<EventWindow>,
) -> Answer<history::History> {
    let events = window.skip..window.skip.saturating_add(EVENTS);
    let read = history::read(
        dashboard.orchestrations()?,
        &id,
        window.execution,
        events,
        true,
    );
    Ok(Json(read.await?.without_data()))
}

pub(super) async fn tree(State(dashboard): App, Path(id): Path<String>) -> Answer<tree::Tree> {
    let orchestrations = dashboard.orchestrations()?;
    Ok(Json(tree::read(orchestrations, &id).await?))
}

/// The queues, and the members of a container with orchestrations.
#[derive(Serialize)]
pub(super) struct Work {
    queues: backlog::Backlog,
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<Group>,
    now: Timestamp,
}

pub(super) async fn queues(State(dashboard): App) -> Answer<Work> {
    let holdings = &dashboard.holdings;
    let members = async {
        match &holdings.orchestrations {
            Some(found) => Ok(Some(found.provider.observe().members(None).await?)),
            None => Ok(None),
        }
    };
    let (queues, members) = try_join!(Box::pin(backlog::read(holdings)), members)?;
    Ok(Json(Work {
        queues,
        members,
        now: holdings.now(),
    }))
}

/// The start of a page.
#[derive(Deserialize)]
pub(super) struct Start {
    from: Option<PageStart>,
}

pub(super) async fn messages(
    State(dashboard): App,
    Query(filter): Query<Filter>,
    Query(start): Query<Start>,
) -> Answer<MessagePage> {
    let messages = &dashboard.holdings.messages;
    Ok(Json(messages.page(filter, ROWS, start.from).await?))
}

pub(super) async fn message(
    State(dashboard): App,
    Path(name): Path<String>,
) -> Answer<MessageDetail> {
    let found = dashboard.holdings.messages.find(&parsed(&name)?).await?;
    Ok(Json(found.ok_or_else(|| gone(&name))?))
}

pub(super) async fn change_feed(State(dashboard): App) -> Answer<change_feed::ChangeFeeds> {
    Ok(Json(change_feed::read(&dashboard.holdings).await?))
}

pub(super) fn parsed(name: &str) -> Result<MessageName, Failure> {
    name.parse().map_err(Failure::usage)
}

pub(super) fn gone(name: &str) -> Failure {
    Failure::finding(format!(
        "message `{name}` is not dead; it was redriven or discarded"
    ))
}
