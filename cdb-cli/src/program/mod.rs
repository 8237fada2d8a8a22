//! A run of the command: parses the arguments, runs the subcommand, returns the exit code.

pub(crate) mod args;
mod cli;
mod containers;
mod examples;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use futures::future::LocalBoxFuture;

use self::args::{Args, Command};
use self::containers::{Containers, reorder};
use crate::command;
use crate::connection;
use crate::connection::env_file::EnvFile;
use crate::exit::{Exit, Failure, remedy};
#[cfg(feature = "mcp")]
use crate::mcp;
use crate::model::Model;
use crate::output::{Console, Terminal};

pub use cli::Cli;

/// The command of a program, without the types of its containers.
pub(crate) struct Program {
    pub(crate) containers: Containers,
    pub(crate) env_file: EnvFile,
}

impl Program {
    /// Runs with the arguments of this process and writes to its standard streams.
    pub(crate) fn run_process(mut self) -> ExitCode {
        match EnvFile::find() {
            Ok(file) => self.env_file = file,
            Err(reason) => {
                eprintln!("cdb: the file `.env` cannot be read: {reason}");
                return Exit::Usage.into();
            }
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => {
                let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
                let terminal = Terminal::of_process();
                let arguments = std::env::args_os().collect();
                runtime
                    .block_on(self.run(arguments, &mut out, &mut err, terminal))
                    .into()
            }
            Err(error) => {
                eprintln!("cdb: cannot start the async runtime: {error}");
                Exit::Usage.into()
            }
        }
    }

    /// Runs with `arguments`, whose first item is the program's name.
    ///
    /// Boxed as a trait object, so that the subcommands are compiled with this crate, not with
    /// each program.
    pub(crate) fn run<'a>(
        &'a self,
        arguments: Vec<OsString>,
        out: &'a mut (dyn Write + Send),
        err: &'a mut (dyn Write + Send),
        terminal: Terminal,
    ) -> LocalBoxFuture<'a, Exit> {
        Box::pin(self.run_subcommand(arguments, out, err, terminal))
    }

    async fn run_subcommand(
        &self,
        arguments: Vec<OsString>,
        out: &mut (dyn Write + Send),
        err: &mut (dyn Write + Send),
        terminal: Terminal,
    ) -> Exit {
        let program = name(arguments.first());
        if let Some(name) = self.containers.duplicate_name() {
            let error = format!("the program declares two containers with the name `{name}`");
            let error = Args::command().error(ErrorKind::ValueValidation, error);
            return show_usage(&error, out, err);
        }
        let mut command = self.command(&program);
        let arguments = reorder(arguments, &command);
        let parsed = command.try_get_matches_from_mut(arguments);
        let parsed = parsed.and_then(|matches| {
            let model = self.containers.chosen(leaf(&matches))?;
            let args = Args::from_arg_matches(&matches)?;
            Ok((args, model, matches))
        });
        let (args, model, matches) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => return show_usage(&error.format(&mut command), out, err),
        };
        let mut console = Console::new(out, err, args.json, terminal, &program);
        let leaf = leaf(&matches);
        if is_anonymous(leaf) && RECORDED.contains(&&*path(&matches)) {
            let remark = "the record of this change will say `unknown`; pass --by NAME";
            // Standard error is only for remarks and errors: the change itself goes on.
            let _ = console.remark(remark);
        }
        let is_emulator = connection::has_emulator_key(leaf);
        let result = self
            .dispatch(args.command, model, &matches, &mut console)
            .await;
        result.unwrap_or_else(|mut failure| {
            failure.remedy = failure
                .remedy
                .map(|remedy| remedy::here(remedy, is_emulator));
            if !failure.message.is_empty() {
                // Standard error itself failed: there is no other stream for this error.
                let _ = console.failure(&failure);
            }
            failure.exit
        })
    }

    /// Returns the definition of the command line.
    fn command(&self, program: &str) -> clap::Command {
        let command = self.containers.with_choice(Args::command());
        self.env_file
            .with_defaults(examples::add_to(command, program))
    }

    async fn dispatch(
        &self,
        command: Command,
        model: &Model,
        #[cfg_attr(
            not(feature = "mcp"),
            expect(unused_variables, reason = "the tools alone pass the connection on")
        )]
        matches: &ArgMatches,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        match command {
            Command::Policy(args) => command::policy::run(&args, model, console).await,
            Command::Model(args) => command::model::run(&args, model, console),
            Command::Instances(args) => {
                Box::pin(command::instances::run(&args, model, console)).await
            }
            Command::Queues(args) => command::queues::run(&args, model, console).await,
            Command::Messages(args) => command::messages::run(&args, model, console).await,
            Command::ChangeFeed(args) => command::change_feed::run(&args, model, console).await,
            Command::Limits(args) => command::limits::run(&args, model, console).await,
            Command::Members(args) => command::members::run(&args, model, console).await,
            Command::Export(args) => command::documents::export(&args, model, console).await,
            Command::Import(args) => command::documents::import(&args, model, console).await,
            Command::Migrate(args) => command::documents::migrate(&args, model, console).await,
            Command::Doctor(args) => command::doctor::run(&args, model, console).await,
            #[cfg(feature = "dashboard")]
            Command::Dashboard(args) => command::dashboard::run(&args, model, console).await,
            #[cfg(feature = "emulator")]
            Command::Emulator(emulator) => match emulator.run(console.out).await {
                Ok(()) => Ok(Exit::Ok),
                Err(error) => Err(Failure::usage(error.to_string())),
            },
            #[cfg(feature = "mcp")]
            Command::Mcp(args) => {
                let connection = connection::given_options(matches);
                let (input, output) = rmcp::transport::stdio();
                let actions = args.allow_actions;
                self.serve_tools(actions, connection, console.program, input, output)
                    .await
            }
            Command::Completions { shell } => {
                command::completions::run(shell, Args::command(), console)
            }
        }
    }

    /// Serves the subcommands as tools on these streams, until the client closes the input.
    #[cfg(feature = "mcp")]
    async fn serve_tools(
        &self,
        allow_actions: bool,
        connection: Vec<(String, String)>,
        program: &str,
        input: impl tokio::io::AsyncRead + Send + Unpin + 'static,
        output: impl tokio::io::AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Exit, Failure> {
        let tools = mcp::Tools::new(self.command(program), allow_actions, connection);
        let run = |arguments: Vec<String>| self.captured(program, arguments);
        mcp::serve(tools, &run, input, output).await
    }

    /// Runs with `arguments` and returns what the run wrote.
    #[cfg(feature = "mcp")]
    fn captured<'a>(
        &'a self,
        program: &'a str,
        arguments: Vec<String>,
    ) -> LocalBoxFuture<'a, mcp::Answer> {
        Box::pin(async move {
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let arguments = std::iter::once(program.to_owned()).chain(arguments);
            let arguments = arguments.map(OsString::from).collect();
            let terminal = Terminal::default();
            let exit = self.run(arguments, &mut out, &mut err, terminal).await;
            mcp::Answer { exit, out, err }
        })
    }
}

/// Returns the arguments of the innermost subcommand.
fn leaf(matches: &ArgMatches) -> &ArgMatches {
    matches
        .subcommand()
        .map_or(matches, |(_, inner)| leaf(inner))
}

/// The commands whose changes are stored with the name of the operator.
const RECORDED: [&str; 6] = [
    "instances fork",
    "instances pause",
    "instances restart",
    "instances rewind",
    "limits remove",
    "limits set",
];

/// Returns the names of the subcommands, from the outermost to the innermost.
fn path(matches: &ArgMatches) -> String {
    match matches.subcommand() {
        None => String::new(),
        Some((name, inner)) => format!("{name} {}", path(inner)).trim_end().to_owned(),
    }
}

/// Whether a change is made by an operator whose name is not known.
fn is_anonymous(leaf: &ArgMatches) -> bool {
    let is_plan = leaf
        .try_get_one::<bool>("dry_run")
        .is_ok_and(|given| given == Some(&true));
    !is_plan
        && leaf.try_contains_id("by").is_ok()
        && leaf.value_source("by") == Some(ValueSource::DefaultValue)
}

/// Writes a help text to `out`, or a usage error to `err`.
fn show_usage<'a>(error: &clap::Error, out: &'a mut dyn Write, err: &'a mut dyn Write) -> Exit {
    let (stream, exit) = if error.use_stderr() {
        (err, Exit::Usage)
    } else {
        (out, Exit::Ok)
    };
    // The stream itself failed: there is no other stream for this error.
    let _ = stream.write_all(error.render().to_string().as_bytes());
    exit
}

/// The name by which the program was called, from its first argument.
fn name(first: Option<&OsString>) -> String {
    let stem = first.and_then(|path| Path::new(path).file_stem());
    stem.map_or_else(
        || "cdb".to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    )
}

#[cfg(all(test, feature = "mcp"))]
mod tests {
    use cdb_model::{Container, Document};
    use cdb_provider::documents::Durable;
    use serde::{Deserialize, Serialize};
    use serde_json::{Value, json};
    use tokio::io::{
        AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex, split,
    };

    use super::*;

    #[derive(Document, Serialize, Deserialize)]
    #[document(type = "entry", id = "entry")]
    struct Entry {
        #[document(partition_key)]
        account: String,
    }

    #[derive(Container)]
    enum Ledger {
        Entry(Entry),
    }

    /// Sends requests to a server, and returns its results.
    async fn ask(streams: DuplexStream, requests: &[(&str, Value)]) -> Vec<Value> {
        let (output, mut input) = split(streams);
        let mut lines = BufReader::new(output).lines();
        let mut results = Vec::new();
        for (id, (method, params)) in requests.iter().enumerate() {
            let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            let request = format!("{request}\n");
            input
                .write_all(request.as_bytes())
                .await
                .expect("it is read");
            let line = lines.next_line().await.expect("an answer");
            let mut answer: Value = serde_json::from_str(&line.expect("an answer")).expect("JSON");
            results.push(answer["result"].take());
        }
        results
    }

    #[tokio::test]
    async fn the_command_of_a_program_offers_tools_for_its_own_containers() {
        let mut containers = Containers::new::<Ledger>("ledger".to_owned());
        containers.add::<Durable>("runs".to_owned());
        let program = Program {
            containers,
            env_file: EnvFile::default(),
        };
        let client = json!({ "name": "a test", "version": "1" });
        let hello =
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        let model = json!({ "name": "model", "arguments": { "container": "ledger" } });
        let requests = [
            ("initialize", hello),
            ("tools/list", json!({})),
            ("tools/call", model),
        ];
        let (client, server) = duplex(1 << 20);
        let (input, output) = split(server);
        let serving = program.serve_tools(false, Vec::new(), "shop", input, output);
        let (ended, results) = tokio::join!(serving, ask(client, &requests));
        assert_eq!(ended.expect("it ends"), Exit::Ok);
        let schema = |name: &str| {
            let mut tools = results[1]["tools"].as_array().expect("a list").iter();
            let tool = tools.find(|tool| tool["name"] == name);
            tool.expect(name)["inputSchema"].clone()
        };
        let of_policy = schema("policy_diff");
        let names = json!(["ledger", "runs"]);
        assert_eq!(of_policy["properties"]["container"]["enum"], names);
        assert_eq!(of_policy["required"], json!(["container"]));
        assert_eq!(schema("instances_list")["required"], json!([]));
        let model = &results[2]["structuredContent"];
        assert_eq!(model["container"], "Ledger", "{model}");
    }

    /// Returns a value that the parser of an argument takes.
    fn example(tool: &str, argument: &str, schema: &Value) -> Value {
        let text = match (tool, argument) {
            (_, "container") => "west",
            ("messages_show", _) => "intent-turn-1@order-3",
            ("limits_set" | "limits_remove", _) => "tenant=*",
            _ => "order-1",
        };
        match schema["type"].as_str() {
            Some("integer") => json!(1),
            Some("array") => json!([text]),
            _ => json!(text),
        }
    }

    #[tokio::test]
    async fn every_tool_takes_the_container_of_a_program_with_two() {
        let mut containers = Containers::new::<Durable>("east".to_owned());
        containers.add::<Durable>("west".to_owned());
        let program = Program {
            containers,
            env_file: EnvFile::default(),
        };
        let tools = mcp::Tools::new(program.command("cdb"), true, Vec::new());
        let mut requests = vec![(
            "initialize",
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "a test", "version": "1" } }),
        )];
        let mut names = Vec::new();
        for tool in tools.described().iter() {
            let schema = Value::Object((*tool.input_schema).clone());
            let properties = &schema["properties"];
            let required = schema["required"].as_array().expect("a list").iter();
            let mut arguments = serde_json::Map::new();
            for name in required.filter_map(Value::as_str).chain(["container"]) {
                let value = example(&tool.name, name, &properties[name]);
                arguments.insert(name.to_owned(), value);
            }
            if properties.get("all").is_some() && properties.get("names").is_some() {
                arguments.insert("all".to_owned(), json!(true));
            }
            let params = json!({ "name": tool.name, "arguments": arguments });
            requests.push(("tools/call", params));
            names.push(tool.name.to_string());
        }
        let (client, server) = duplex(1 << 20);
        let (input, output) = split(server);
        let serving = program.serve_tools(true, Vec::new(), "shop", input, output);
        let (_, results) = tokio::join!(serving, ask(client, &requests));
        assert!(names.len() > 25, "{names:?}");
        for (name, result) in names.iter().zip(&results[1..]) {
            let text = result["content"].to_string();
            assert!(!text.contains("'--container"), "{name}: {text}");
            assert!(!text.contains("one with --container"), "{name}: {text}");
            assert!(!text.contains("unexpected argument"), "{name}: {text}");
        }
    }
}
