//! The tools: one for each subcommand that answers and ends by itself.

use std::any::TypeId;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Arg, ArgAction, Command};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::connection::{self, CONTAINER};

/// The subcommands without a tool: they serve, read or write files, or do not end.
const EXCLUDED: [&str; 8] = [
    "completions",
    "dashboard",
    "emulator",
    "export",
    "import",
    "instances watch",
    "mcp",
    "migrate",
];

/// The subcommands that change nothing. Any other changes something, also one that is forgotten here:
/// it needs `--allow-actions` and a confirmation.
const READS: [&str; 17] = [
    "change-feed",
    "doctor",
    "instances history",
    "instances list",
    "instances replay",
    "instances show",
    "instances tree",
    "instances wait",
    "limits list",
    "members",
    "messages list",
    "messages show",
    "model",
    "policy check",
    "policy diff",
    "policy print",
    "queues",
];

/// The changes that only add something. Any other may destroy or replace something.
const ADDITIVE: [&str; 4] = [
    "instances fork",
    "instances raise",
    "instances start",
    "messages redrive",
];

/// The arguments that the server sets: the form of the answer, the confirmation, and the name for the
/// record of a change.
const OF_SERVER: [&str; 7] = ["by", "dry_run", "help", "json", "planned", "version", "yes"];

/// The arguments for the account check, which creates containers.
const OF_ACCOUNT_CHECK: [&str; 4] = ["identity_token", "is_asked", "questions", "satellite"];

/// The argument of a tool that confirms a change.
pub(super) const CONFIRM: &str = "confirm";

/// The tools of a program.
pub(crate) struct Tools {
    pub(super) all: Vec<CommandTool>,
    /// The options of the connection that `cdb mcp` was started with, by the id of their argument.
    pub(super) connection: Vec<(String, String)>,
    pub(super) program: String,
}

/// A subcommand as a tool.
pub(super) struct CommandTool {
    pub(super) name: String,
    /// The names of the subcommand and of those that contain it.
    pub(super) path: Vec<String>,
    pub(super) command: Command,
}

impl Tools {
    /// Makes the tools of a command. Tools that change something need `allow_actions`.
    pub(crate) fn new(
        mut command: Command,
        allow_actions: bool,
        connection: Vec<(String, String)>,
    ) -> Self {
        command.build();
        let mut all = Vec::new();
        collect(&command, &[], &mut all);
        all.retain(|tool| allow_actions || !tool.is_change());
        Self {
            all,
            connection,
            program: command.get_name().to_owned(),
        }
    }

    /// Describes the tools to a client.
    pub(crate) fn described(&self) -> Arc<[Tool]> {
        let tools = self.all.iter();
        tools.map(|tool| tool.described(&self.connection)).collect()
    }
}

/// Adds the tools of a command's subcommands.
fn collect(command: &Command, path: &[String], tools: &mut Vec<CommandTool>) {
    for inner in command.get_subcommands() {
        let path = [path, &[inner.get_name().to_owned()]].concat();
        if inner.get_name() == "help" || EXCLUDED.contains(&&*path.join(" ")) {
            continue;
        }
        // A required file is on the user's machine, whose files the client does not see.
        let needs_file = inner
            .get_arguments()
            .any(|arg| is_file(arg) && arg.is_required_set());
        if !inner.is_subcommand_required_set() && !needs_file {
            tools.push(CommandTool {
                name: path.join("_").replace('-', "_"),
                path: path.clone(),
                command: inner.clone(),
            });
        }
        collect(inner, &path, tools);
    }
}

fn is_file(arg: &Arg) -> bool {
    arg.get_value_parser().type_id() == TypeId::of::<PathBuf>()
}

impl CommandTool {
    /// Whether the subcommand changes something. It then has a dry run, which shows its plan.
    pub(super) fn is_change(&self) -> bool {
        !self.is_among(&READS)
    }

    fn is_among(&self, paths: &[&str]) -> bool {
        paths.contains(&&*self.path.join(" "))
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.command.get_arguments().any(|arg| arg.get_id() == id)
    }

    /// The arguments that a client can give. The options of the connection are not among them: a
    /// client must not choose where requests and credentials go, nor the command that prints a
    /// token. It may choose one of several containers of the program.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &Arg> {
        let is_given = |arg: &&Arg| {
            let is_connection = connection::is_option(arg.get_id().as_str());
            let is_choice = arg.get_id() == CONTAINER && !arg.get_possible_values().is_empty();
            let id = arg.get_id().as_str();
            let is_withheld = OF_SERVER.contains(&id) || OF_ACCOUNT_CHECK.contains(&id);
            (!is_connection || is_choice) && !is_withheld && !is_file(arg)
        };
        self.command.get_arguments().filter(is_given)
    }

    fn described(&self, connection: &[(String, String)]) -> Tool {
        let mut properties = JsonObject::new();
        let mut required = Vec::new();
        for arg in self.arguments() {
            let name = name(arg);
            let is_known = connection.iter().any(|(id, _)| arg.get_id() == &**id);
            let is_choice = arg.get_id() == CONTAINER && arg.get_default_values().is_empty();
            if (arg.is_required_set() || is_choice) && !is_known {
                required.push(name.clone());
            }
            properties.insert(name, property(arg));
        }
        if self.is_change() {
            let what = "`confirm` of the answer to the same call without it, which changes nothing and shows the plan";
            let property = json!({ "type": "string", "description": what });
            properties.insert(CONFIRM.to_owned(), property);
        }
        let Value::Object(schema) = json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }) else {
            unreachable!("the literal is an object")
        };
        let annotations = ToolAnnotations::new()
            .read_only(!self.is_change())
            .destructive(self.is_change() && !self.is_among(&ADDITIVE));
        Tool::new(self.name.clone(), self.about(), schema).with_annotations(annotations)
    }

    /// The text of the subcommand's help.
    fn about(&self) -> String {
        let about = self.command.get_long_about();
        let about = about.or_else(|| self.command.get_about());
        about.map(ToString::to_string).unwrap_or_default()
    }
}

/// Whether a call lasts until an instance ends or an index is built. A dry run does not.
pub(super) fn waits(tool: &str, given: &JsonObject) -> bool {
    let is_given = |name: &str| given.get(name) == Some(&Value::Bool(true));
    match tool {
        "instances_wait" => true,
        "instances_start" => given.contains_key(CONFIRM) && is_given("wait"),
        "policy_apply" => given.contains_key(CONFIRM) && !is_given("no_wait"),
        _ => false,
    }
}

/// The name of an argument in a call.
pub(super) fn name(arg: &Arg) -> String {
    arg.get_long()
        .unwrap_or(arg.get_id().as_str())
        .replace('-', "_")
}

/// Whether an argument takes a list of values.
pub(super) fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// Whether an argument is given or not, and takes no value.
pub(super) fn is_flag(arg: &Arg) -> bool {
    !arg.get_action().takes_values()
}

/// Describes an argument in the terms of a JSON schema.
fn property(arg: &Arg) -> Value {
    let values = arg.get_possible_values();
    let of_value = if is_flag(arg) {
        json!({ "type": "boolean" })
    } else if is_number(arg) {
        json!({ "type": "integer", "minimum": 0 })
    } else if values.is_empty() {
        json!({ "type": "string" })
    } else {
        let names: Vec<&str> = values
            .iter()
            .map(clap::builder::PossibleValue::get_name)
            .collect();
        json!({ "type": "string", "enum": names })
    };
    let mut property = if is_list(arg) {
        json!({ "type": "array", "items": of_value })
    } else {
        of_value
    };
    let help = arg.get_long_help().or_else(|| arg.get_help());
    property["description"] = help.map(ToString::to_string).unwrap_or_default().into();
    let default = arg
        .get_default_values()
        .first()
        .and_then(|value| value.to_str());
    if let Some(default) = default.filter(|default| !default.is_empty() && !is_flag(arg)) {
        property["default"] = match default.parse::<u64>() {
            Ok(number) if is_number(arg) => number.into(),
            _ => default.into(),
        };
    }
    property
}

fn is_number(arg: &Arg) -> bool {
    let parsed = arg.get_value_parser().type_id();
    [
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
    ]
    .iter()
    .any(|number| parsed == *number)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::program::args::Args;

    #[test]
    fn what_does_not_stand_in_the_list_of_reads_has_a_dry_run() {
        let all = Tools::new(Args::command(), true, Vec::new()).all;
        for tool in &all {
            assert_eq!(tool.is_change(), tool.has("dry_run"), "{}", tool.name);
        }
        let names: Vec<String> = all.iter().map(|tool| tool.path.join(" ")).collect();
        for listed in READS.iter().chain(&ADDITIVE) {
            let is_tool = names.iter().any(|name| name == listed);
            assert!(is_tool, "{listed} is not a tool");
        }
        let reads = Tools::new(Args::command(), false, Vec::new()).all;
        assert_eq!(reads.len(), READS.len());
    }

    #[test]
    fn an_unknown_tool_changes_and_may_destroy() {
        let unknown = Command::new("cdb").subcommand(Command::new("purge"));
        assert!(
            Tools::new(unknown.clone(), false, Vec::new())
                .all
                .is_empty()
        );
        let tools = Tools::new(unknown, true, Vec::new()).described();
        let annotations = tools[0].annotations.as_ref().expect("it has some");
        assert_eq!(annotations.read_only_hint, Some(false));
        assert_eq!(annotations.destructive_hint, Some(true));
    }

    #[test]
    fn a_dry_run_does_not_wait() {
        let waits = |name: &str, given: Value| waits(name, given.as_object().expect("an object"));
        assert!(waits("instances_wait", json!({})));
        assert!(!waits("instances_show", json!({})));
        let code = "0123";
        assert!(waits(
            "instances_start",
            json!({ "wait": true, "confirm": code })
        ));
        assert!(!waits("instances_start", json!({ "wait": true })));
        assert!(!waits("instances_start", json!({ "confirm": code })));
        assert!(waits("policy_apply", json!({ "confirm": code })));
        assert!(!waits(
            "policy_apply",
            json!({ "no_wait": true, "confirm": code })
        ));
        assert!(!waits("policy_apply", json!({})));
    }
}
