//! The dashboard: a page on this machine that shows what the other commands show, live.
//!
//! It listens on the loopback address alone, answers to this machine's names alone (a page elsewhere whose name is made to
//! point here gets nothing), runs no script and loads nothing but its own, and changes nothing unless it was started with
//! actions; each of them then needs the token that only the terminal has shown.

mod action_token;
mod actions;
mod api;
mod guard;
mod latency;
mod page;
mod state;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use tokio::net::TcpListener;

pub(crate) use action_token::Token;
pub(crate) use state::Dashboard;

impl Dashboard {
    /// Serves until the process ends.
    ///
    /// # Errors
    /// When the listener fails.
    pub(crate) async fn serve(self, listener: TcpListener) -> std::io::Result<()> {
        let dashboard = Arc::new(self);
        let measured = dashboard.clone();
        let samples = tokio::spawn(async move {
            latency::measure(&measured.orchestrations.container, &measured.latency).await;
        });
        let served = axum::serve(listener, routes(dashboard)).await;
        samples.abort();
        served
    }
}

fn routes(dashboard: Arc<Dashboard>) -> Router {
    Router::new()
        .route("/", get(page::index))
        .route("/{file}", get(page::file))
        .route("/api/about", get(api::about))
        .route("/api/instances", get(api::instances))
        .route("/api/instances/{id}", get(api::instance))
        .route("/api/instances/{id}/history", get(api::history))
        .route("/api/instances/{id}/tree", get(api::tree))
        .route("/api/instances/{id}/cancel", post(actions::cancel))
        .route("/api/instances/{id}/raise", post(actions::raise))
        .route("/api/instances/{id}/delete", post(actions::delete))
        .route("/api/queues", get(api::queues))
        .route("/api/outbox", get(api::outbox))
        .route("/api/deadletters", get(api::dead_letters))
        .route("/api/deadletters/{name}", get(api::dead_letter))
        .route("/api/deadletters/{name}/redrive", post(actions::redrive))
        .route("/api/deadletters/{name}/discard", post(actions::discard))
        .route("/api/latency", get(api::latency))
        .layer(from_fn_with_state(dashboard.clone(), guard::check))
        .with_state(dashboard)
}
