//! The dashboard: a local web page with the live answers of the other commands.
//!
//! The server listens on the loopback address only and accepts only requests whose `Host` names
//! this machine, which defeats DNS rebinding. The page loads no file of another server. Data and
//! changes need the token that the terminal shows, changes `--allow-actions` too.

mod actions;
mod api;
mod guard;
mod live;
mod page;
mod state;
mod token;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use tokio::net::TcpListener;

pub(crate) use state::Dashboard;
pub(crate) use token::Token;

impl Dashboard {
    /// Serves until the process ends.
    ///
    /// # Errors
    /// When the listener fails.
    pub(crate) async fn serve(self, listener: TcpListener) -> std::io::Result<()> {
        axum::serve(listener, routes(Arc::new(self))).await
    }
}

fn routes(dashboard: Arc<Dashboard>) -> Router {
    Router::new()
        .route("/", get(page::index))
        .route("/{file}", get(page::file))
        .route("/api/about", get(api::about))
        .route("/api/overview", get(api::overview))
        .route("/api/instances", get(api::instances))
        .route("/api/instances/{id}", get(api::instance))
        .route("/api/instances/{id}/history", get(api::history))
        .route("/api/instances/{id}/tree", get(api::tree))
        .route("/api/instances/{id}/live", get(live::instance))
        .route("/api/instances/{id}/cancel", post(actions::cancel))
        .route("/api/instances/{id}/pause", post(actions::pause))
        .route("/api/instances/{id}/resume", post(actions::resume))
        .route("/api/instances/{id}/raise", post(actions::raise))
        .route("/api/instances/{id}/restart", post(actions::restart))
        .route("/api/instances/{id}/rewind", post(actions::rewind))
        .route("/api/instances/{id}/delete", post(actions::delete))
        .route("/api/queues", get(api::queues))
        .route("/api/messages", get(api::messages))
        .route("/api/messages/{name}", get(api::message))
        .route("/api/messages/{name}/redrive", post(actions::redrive))
        .route("/api/messages/{name}/discard", post(actions::discard))
        .route("/api/change-feed", get(api::change_feed))
        .layer(from_fn_with_state(dashboard.clone(), guard::check))
        .with_state(dashboard)
}
