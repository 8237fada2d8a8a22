//! The server of the protocol. The SDK's tasks pass calls to one future, because runs of the command
//! borrow the program's containers.

use std::sync::Arc;

use futures::channel::{mpsc, oneshot};
use futures::future::{Either, join, select};
use futures::{SinkExt as _, StreamExt as _};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use tokio::io::{AsyncRead, AsyncWrite};

use super::Run;
use super::call::Calls;
use super::confirm::Confirmations;
use super::tool::{Tools, waits};
use crate::exit::{Exit, Failure};

/// The calls that run at the same time. Others wait.
const CONCURRENT: usize = 4;

/// The calls that wait for an instance or an index at the same time, beside the others.
const CONCURRENT_WAITS: usize = 16;

/// What a client reads before its first call.
const INSTRUCTIONS: &str = "Tools of a command for documents and durable orchestrations on Azure Cosmos DB. Begin with `doctor`: each finding has a remedy. \
    A remedy names subcommands; the tool of `instances show` is `instances_show`. A tool that changes something first answers with its plan and \
    `confirm`; it makes the change when it is called again with the same arguments and `confirm`.";

/// A call on its way to the command.
struct Call {
    tool: String,
    arguments: JsonObject,
    client: String,
    reply: oneshot::Sender<CallToolResult>,
}

/// The part of the server that the SDK calls.
struct Handler {
    config: ServerConfig,
    tools: Arc<[Tool]>,
    calls: mpsc::Sender<Call>,
    /// Takes the calls that wait, which would hold up the others.
    waits: mpsc::Sender<Call>,
}

/// Serves the tools until the client closes the input.
///
/// # Errors
/// When the client does not speak the protocol.
pub(crate) async fn serve<'a, R, W>(
    tools: Tools,
    run: &'a Run<'a>,
    input: R,
    output: W,
) -> Result<Exit, Failure>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (sender, queue) = mpsc::channel(CONCURRENT);
    let (waits_sender, waits_queue) = mpsc::channel(CONCURRENT_WAITS);
    let capabilities = ServerCapabilities::builder().enable_tools().build();
    let about = Implementation::new(tools.program.clone(), env!("CARGO_PKG_VERSION"));
    let config = ServerConfig::new(capabilities)
        .with_server_info(about)
        .with_instructions(INSTRUCTIONS);
    let handler = Handler {
        config,
        tools: tools.described(),
        calls: sender,
        waits: waits_sender,
    };
    let calls = Calls {
        tools,
        run,
        confirmations: Confirmations::default(),
    };
    let served = Box::pin(async {
        let server = handler.serve((input, output)).await;
        let server = server.map_err(|error| {
            Failure::usage(format!(
                "no client of the Model Context Protocol is at standard input: {error}"
            ))
        })?;
        let ended = server.waiting().await;
        ended.map_err(|error| Failure::usage(format!("the server failed: {error}")))
    });
    let work = Box::pin(join(
        queue.for_each_concurrent(CONCURRENT, |call| work(&calls, call)),
        waits_queue.for_each_concurrent(CONCURRENT_WAITS, |call| work(&calls, call)),
    ));
    match select(served, work).await {
        Either::Left((served, _)) => served.map(|_| Exit::Ok),
        // The queues end with the server.
        Either::Right((_, served)) => served.await.map(|_| Exit::Ok),
    }
}

/// Runs a call, until the client cancels it.
async fn work(calls: &Calls<'_>, call: Call) {
    let Call {
        tool,
        arguments,
        client,
        mut reply,
    } = call;
    let answer = Box::pin(calls.answer(&tool, &arguments, &client));
    let answer = match select(answer, reply.cancellation()).await {
        Either::Left((answer, _)) => answer,
        Either::Right(((), _)) => return,
    };
    // The client may have cancelled the call.
    let _ = reply.send(answer);
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        self.config.clone()
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let client = context.client_info();
        let client = client.map_or_else(
            || "mcp".to_owned(),
            |client| format!("mcp: {}", client.name),
        );
        let (reply, answer) = oneshot::channel();
        let call = Call {
            tool: request.name.into_owned(),
            arguments: request.arguments.unwrap_or_default(),
            client,
            reply,
        };
        let ended = || ErrorData::internal_error("the server is ending", None);
        let queue = if waits(&call.tool, &call.arguments) {
            &self.waits
        } else {
            &self.calls
        };
        queue.clone().send(call).await.map_err(|_| ended())?;
        tokio::select! {
            answer = answer => answer.map(CallToolResponse::from).map_err(|_| ended()),
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the call was cancelled", None)),
        }
    }
}
