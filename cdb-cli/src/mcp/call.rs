//! A call: runs the subcommand of its tool, for a change the dry run first.

use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::{Value, json};

use super::arguments::command_line;
use super::confirm::Confirmations;
use super::tool::{CONFIRM, CommandTool, Tools};
use super::{Answer, Run};
use crate::exit::Exit;

/// What calls need.
pub(super) struct Calls<'a> {
    pub(super) tools: Tools,
    pub(super) run: &'a Run<'a>,
    pub(super) confirmations: Confirmations,
}

/// The answer of a run, decoded.
struct Ran {
    exit: Exit,
    /// The answer, or `None` when the run wrote none.
    answer: Option<Value>,
    /// The answer, when it is no JSON: a diagram, a policy of infrastructure as code.
    text: String,
    /// The remarks, or the error.
    remarks: String,
}

impl Calls<'_> {
    /// Runs the call of a client with this name.
    pub(super) async fn answer(
        &self,
        name: &str,
        given: &JsonObject,
        client: &str,
    ) -> CallToolResult {
        let Some(tool) = self.tools.all.iter().find(|tool| tool.name == name) else {
            return refused(format!("there is no tool `{name}`"));
        };
        match command_line(&self.tools, tool, given) {
            Err(reason) => refused(reason),
            Ok(line) if tool.is_change() => self.change(tool, line, given, client).await,
            Ok(line) => self.ran(line).await.result(),
        }
    }

    async fn change(
        &self,
        tool: &CommandTool,
        line: Vec<String>,
        given: &JsonObject,
        client: &str,
    ) -> CallToolResult {
        let planned = self.ran(with_option(&line, "--dry-run".to_owned())).await;
        let Some(plan) = &planned.answer else {
            return planned.result();
        };
        let code = self.confirmations.code(&line, plan);
        let shown = |note: &str| {
            let answer = json!({ "changed": false, "plan": plan, CONFIRM: code, "note": note });
            result(&answer, &planned.remarks)
        };
        match given.get(CONFIRM).and_then(Value::as_str) {
            None => {
                shown("nothing was changed; to make the change, repeat the call with `confirm`")
            }
            Some(given) if given != code => shown(
                "nothing was changed: `confirm` belongs to another call, another plan or a change that was made; check this plan and repeat the call with its `confirm`",
            ),
            Some(_) => {
                self.confirmations.use_up(&line);
                let mut confirmed = line;
                if tool.can_confirm(given) {
                    confirmed = with_option(&confirmed, "--yes".to_owned());
                }
                // What begins to match after the plan is not changed.
                if let Some(digest) = plan.get("digest").and_then(Value::as_str) {
                    confirmed = with_option(&confirmed, format!("--planned={digest}"));
                }
                if tool.has("by") {
                    confirmed = with_option(&confirmed, format!("--by={client}"));
                }
                self.ran(confirmed).await.result()
            }
        }
    }

    async fn ran(&self, line: Vec<String>) -> Ran {
        let Answer { exit, out, err } = (self.run)(line).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        Ran {
            exit,
            answer: serde_json::from_slice(&out).ok(),
            text: text(&out),
            remarks: text(&err),
        }
    }
}

impl CommandTool {
    /// Whether the subcommand takes `--yes` beside the given arguments.
    fn can_confirm(&self, given: &JsonObject) -> bool {
        let mut arguments = self.command.get_arguments();
        let Some(yes) = arguments.find(|arg| arg.get_id() == "yes") else {
            return false;
        };
        let conflicts = self.command.get_arg_conflicts_with(yes);
        let is_given = |id: &str| {
            given
                .get(id)
                .is_some_and(|value| *value == Value::Bool(true))
        };
        !conflicts.iter().any(|arg| is_given(arg.get_id().as_str()))
    }
}

impl Ran {
    fn result(self) -> CallToolResult {
        match (self.answer, self.exit) {
            (Some(answer), _) => result(&answer, &self.remarks),
            (None, Exit::Ok) => CallToolResult::success(vec![ContentBlock::text(self.text)]),
            (None, _) => refused(self.remarks),
        }
    }
}

/// Inserts an option before the positional arguments.
fn with_option(line: &[String], option: String) -> Vec<String> {
    let end = line.iter().position(|argument| argument == "--");
    let (options, rest) = line.split_at(end.unwrap_or(line.len()));
    [options, &[option], rest].concat()
}

fn result(answer: &Value, remarks: &str) -> CallToolResult {
    let mut result = CallToolResult::structured(answer.clone());
    if !remarks.is_empty() {
        result.content.push(ContentBlock::text(remarks));
    }
    result
}

fn refused(reason: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(reason)])
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use clap::CommandFactory as _;

    use super::*;
    use crate::program::args::Args;

    #[tokio::test]
    async fn a_confirmed_change_is_limited_to_the_items_of_its_plan() {
        let lines = RefCell::new(Vec::new());
        let run = |line: Vec<String>| {
            lines.borrow_mut().push(line.join(" "));
            let out = br#"{"would":"cancel","count":2,"digest":"0a1b","instances":[]}"#.to_vec();
            let answer = Answer {
                exit: Exit::Ok,
                out,
                err: Vec::new(),
            };
            let answer: futures::future::LocalBoxFuture<'_, Answer> =
                Box::pin(std::future::ready(answer));
            answer
        };
        let calls = Calls {
            tools: Tools::new(Args::command(), true, Vec::new()),
            run: &run,
            confirmations: Confirmations::default(),
        };
        let mut given = json!({ "status": ["running"] });
        for _ in 0..2 {
            let arguments = given.as_object().expect("an object");
            let answer = calls.answer("instances_cancel", arguments, "a test").await;
            let answer = answer.structured_content.expect("an answer");
            given[CONFIRM] = answer[CONFIRM].clone();
        }
        let lines = lines.borrow();
        let cancel = "instances cancel --json --status=running";
        // The plan, the plan again, the change.
        let planned = format!("{cancel} --dry-run");
        assert_eq!(lines[..2], [planned.clone(), planned]);
        assert_eq!(
            lines[2],
            format!("{cancel} --yes --planned=0a1b --by=a test")
        );
    }
}
