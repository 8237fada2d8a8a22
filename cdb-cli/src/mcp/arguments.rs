//! The arguments of a call as a command line.

use clap::Arg;
use rmcp::model::JsonObject;
use serde_json::Value;

use super::tool::{CONFIRM, CommandTool, Tools, is_flag, is_list, name};

/// Returns the command line of a call, with `--json` and the options of the connection.
///
/// # Errors
/// When an argument is unknown or its value has another form than its schema says. The command checks
/// the values themselves.
pub(super) fn command_line(
    tools: &Tools,
    tool: &CommandTool,
    given: &JsonObject,
) -> Result<Vec<String>, String> {
    let arguments: Vec<&Arg> = tool.arguments().collect();
    for unknown in given.keys() {
        let is_confirm = unknown == CONFIRM && tool.is_change();
        if !is_confirm && !arguments.iter().any(|arg| name(arg) == *unknown) {
            let known: Vec<String> = arguments.iter().map(|arg| name(arg)).collect();
            return Err(format!(
                "`{}` has no argument `{unknown}`; its arguments are: {}",
                tool.name,
                known.join(", ")
            ));
        }
    }
    let mut line = tool.path.clone();
    line.push("--json".to_owned());
    for (id, value) in &tools.connection {
        let is_given = arguments
            .iter()
            .any(|arg| arg.get_id() == &**id && given.contains_key(&name(arg)));
        let option = tool
            .command
            .get_arguments()
            .find(|arg| arg.get_id() == &**id);
        if let Some(option) = option.filter(|_| !is_given) {
            line.push(written(option, value));
        }
    }
    let mut positional = Vec::new();
    for arg in arguments {
        let Some(value) = given.get(&name(arg)).filter(|value| !value.is_null()) else {
            continue;
        };
        let values = values(arg, value)?;
        if arg.is_positional() {
            positional.extend(values);
        } else {
            line.extend(values.iter().map(|value| written(arg, value)));
        }
    }
    if !positional.is_empty() {
        line.push("--".to_owned());
        line.extend(positional);
    }
    Ok(line)
}

/// Writes an option in one argument, so that a value cannot be read as another option.
fn written(arg: &Arg, value: &str) -> String {
    let long = arg.get_long().unwrap_or_default();
    if is_flag(arg) {
        return format!("--{long}");
    }
    format!("--{long}={value}")
}

/// Returns the values of an argument; an empty one for a flag that is set.
fn values(arg: &Arg, value: &Value) -> Result<Vec<String>, String> {
    let refused = |form| Err(format!("`{}` takes {form}, not {value}", name(arg)));
    if is_flag(arg) {
        return match value {
            Value::Bool(true) => Ok(vec![String::new()]),
            Value::Bool(false) => Ok(Vec::new()),
            _ => refused("true or false"),
        };
    }
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    };
    let texts = match value {
        Value::Array(values) if is_list(arg) => values.iter().map(text).collect(),
        one => text(one).map(|text| vec![text]),
    };
    match texts {
        Some(texts) => Ok(texts),
        None if is_list(arg) => refused("a list of texts"),
        None => refused("a text or a number"),
    }
}
