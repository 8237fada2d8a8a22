//! A web service that starts orchestrations, reports their status, and raises events.
//!
//! `cargo run -p cdb-examples --bin web_service` serves until ctrl-c:
//!
//! ```text
//! curl -X POST localhost:8080/orders/7 -H 'content-type: application/json' -d '{ "article": "lamp", "cents": 4900 }'
//! curl -X POST localhost:8080/orders/7/approval
//! curl localhost:8080/orders/7
//! ```
//!
//! With `--try` the program sends these requests itself, prints the answers, and ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use cdb_emulator::Emulator;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationStatus, Runtime};
use duroxide::{ActivityContext, Client, ClientError, OrchestrationContext, OrchestrationRegistry};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

type Failure = Box<dyn std::error::Error>;

/// The body of an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Order {
    article: String,
    cents: u64,
}

/// The answer to a customer.
#[derive(Debug, Serialize, Deserialize)]
struct Progress {
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let emulator = Emulator::start().await?;
    let config = CosmosDBProviderConfig::from_env_or(&emulator.connection_string())?;
    let store = Arc::new(CosmosDBProvider::new_with_config(config).await?);
    let runtime = Runtime::start_with_store(store.clone(), activities(), orchestrations()).await;
    let routes = Router::new()
        .route("/orders/{number}", post(start).get(progress))
        .route("/orders/{number}/approval", post(approve))
        .route("/health", get(|| async { StatusCode::NO_CONTENT }))
        .with_state(Arc::new(Client::new(store)));

    let trying = std::env::args().any(|argument| argument == "--try");
    let port = if trying { 0 } else { 8080 };
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let address = listener.local_addr()?;
    println!("http://{address}/orders");
    let server = axum::serve(listener, routes);
    if trying {
        let customer =
            tokio::spawn(async move { try_it(address).await.map_err(|error| error.to_string()) });
        tokio::select! {
            ended = server => ended?,
            tried = customer => tried??,
        }
    } else {
        let stop = async {
            // If ctrl-c cannot be received, serve without end.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        server.with_graceful_shutdown(stop).await?;
    }
    // Finish running turns and release locks.
    runtime.shutdown(None).await;
    Ok(())
}

/// `POST /orders/{number}`: a repeated number is the same order.
async fn start(
    State(client): State<Arc<Client>>,
    Path(number): Path<u64>,
    Json(order): Json<Order>,
) -> Result<StatusCode, (StatusCode, String)> {
    let input = serde_json::to_string(&order).map_err(internal)?;
    client
        .start_orchestration(&instance(number), "Order", input)
        .await
        .map_err(unavailable)?;
    Ok(StatusCode::ACCEPTED)
}

/// `POST /orders/{number}/approval`.
async fn approve(
    State(client): State<Arc<Client>>,
    Path(number): Path<u64>,
) -> Result<StatusCode, (StatusCode, String)> {
    client
        .raise_event(instance(number), "Approved", "")
        .await
        .map_err(unavailable)?;
    Ok(StatusCode::ACCEPTED)
}

/// `GET /orders/{number}`.
async fn progress(
    State(client): State<Arc<Client>>,
    Path(number): Path<u64>,
) -> Result<Json<Progress>, (StatusCode, String)> {
    let status = client
        .get_orchestration_status(&instance(number))
        .await
        .map_err(unavailable)?;
    let (state, result) = match status {
        OrchestrationStatus::NotFound => {
            return Err((StatusCode::NOT_FOUND, format!("there is no order {number}")));
        }
        OrchestrationStatus::Running { .. } => ("open", None),
        OrchestrationStatus::Completed { output, .. } => ("done", Some(output)),
        OrchestrationStatus::Failed { details, .. } => ("failed", Some(details.display_message())),
    };
    Ok(Json(Progress {
        state: state.to_owned(),
        result,
    }))
}

fn instance(number: u64) -> String {
    format!("order-{number}")
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn unavailable(error: ClientError) -> (StatusCode, String) {
    (StatusCode::SERVICE_UNAVAILABLE, error.to_string())
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn internal(error: serde_json::Error) -> (StatusCode, String) {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Charge", |_: ActivityContext, order: String| async move {
            let order: Order = serde_json::from_str(&order).map_err(|error| error.to_string())?;
            Ok(format!("{} cents for a {}", order.cents, order.article))
        })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register(
            "Order",
            |ctx: OrchestrationContext, order: String| async move {
                // Waits for days, across restarts, at no cost.
                ctx.schedule_wait("Approved").await;
                ctx.schedule_activity("Charge", order).await
            },
        )
        .build()
}

/// A customer.
async fn try_it(address: SocketAddr) -> Result<(), Failure> {
    let order = r#"{ "article": "lamp", "cents": 4900 }"#;
    ask(address, "GET /orders/7", "").await?;
    ask(address, "POST /orders/7", order).await?;
    ask(address, "POST /orders/7/approval", "").await?;
    for _ in 0..100 {
        if ask(address, "GET /orders/7", "").await?.contains("done") {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err("the order stays open".into())
}

/// Sends a request, prints the answer, and returns it.
async fn ask(address: SocketAddr, what: &str, body: &str) -> Result<String, Failure> {
    let mut stream = TcpStream::connect(address).await?;
    let length = body.len();
    let request = format!(
        "{what} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.lines().next().unwrap_or_default();
    println!("{what:24} {status} {body}");
    Ok(body.to_owned())
}
