//! Checks of the messages and changes whose handlers fail, and of the streams that wait behind them.

use std::time::Duration;

use super::finding::Finding;
use crate::container::Holdings;
use crate::exit::Failure;
use crate::model::messages::Messages;
use crate::output::{counted, short, span};
use crate::view::messages::change_feed::{self, PartRow};
use crate::view::messages::{ordered_work, outbox, retrying};
use crate::view::queues::backlog::{Retries, retries};

/// The maximum number of reported parts of change feeds.
const MAX_PARTS: usize = 10;

pub(super) async fn examine(holdings: &Holdings) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    if let Some(messages) = &holdings.messages {
        findings.extend(messaging(holdings, &**messages).await?);
    }
    if holdings.work.is_some() {
        findings.extend(work(holdings).await?);
    }
    if holdings.feeds.is_some() {
        let parts = change_feed::read(holdings).await?.parts;
        findings.extend(feeds(&parts));
    }
    Ok(findings)
}

/// The end of a finding: the error of one of the messages.
fn for_example(reason: &str) -> String {
    format!("; for example: {}", short(reason, 200))
}

async fn messaging(holdings: &Holdings, messages: &dyn Messages) -> Result<Vec<Finding>, Failure> {
    let Retries {
        outbox_retrying,
        inbox_retrying,
    } = retries(messages).await?;
    let mut findings = Vec::new();
    if outbox_retrying > 0 {
        let page = outbox::retrying(messages, 1, None).await?;
        let reason = page.rows.first().map(|row| for_example(&row.reason));
        findings.push(Finding::warning(
            "outbox",
            format!(
                "{} between partitions cannot be delivered{}",
                counted(outbox_retrying, "message"),
                reason.unwrap_or_default()
            ),
            "run {cdb} outbox for the errors and fix the cause; a refused message becomes a dead letter after its last attempt",
        ));
    }
    if inbox_retrying > 0 {
        let inbox = retrying::inbox(holdings, 1, None).await?;
        let reason = inbox.messages.first().map(|row| for_example(&row.reason));
        findings.push(Finding::warning(
            "inbox",
            format!(
                "the handlers of {} fail, and their streams wait{}",
                counted(inbox_retrying, "message"),
                reason.unwrap_or_default()
            ),
            "run {cdb} inbox for the errors and fix the handler; a message becomes a dead letter after its last attempt",
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(
            "inbox",
            "no message between partitions is retried",
        ));
    }
    Ok(findings)
}

async fn work(holdings: &Holdings) -> Result<Vec<Finding>, Failure> {
    let page = ordered_work::read(holdings, 1, None).await?;
    let Some(first) = page.messages.first() else {
        return Ok(vec![Finding::ok(
            "work",
            "no message of ordered work has failed",
        )]);
    };
    let counts = ordered_work::counts(holdings).await?;
    let says = format!(
        "{} of ordered work blocked: {} retried, {} set aside{}",
        counted(counts.blocked_streams(), "stream"),
        counts.retrying,
        counts.set_aside,
        for_example(&first.reason)
    );
    let finding = if counts.set_aside > 0 {
        Finding::problem(
            "work",
            says,
            "run {cdb} work for the errors, fix the handler, then run {cdb} work redrive; {cdb} work discard skips messages that cannot be handled",
        )
    } else {
        Finding::warning(
            "work",
            says,
            "run {cdb} work for the errors and fix the handler; after its last attempt a message is set aside or skipped",
        )
    };
    Ok(vec![finding])
}

fn feeds(parts: &[PartRow]) -> Vec<Finding> {
    let failing = |part: &&PartRow| part.failure.is_some() || part.reader.is_none();
    let failing: Vec<&PartRow> = parts.iter().filter(failing).collect();
    if failing.is_empty() {
        let unknown = parts.iter().filter(|part| part.lag.is_none()).count();
        let known = parts.iter().filter_map(|part| part.lag).max();
        let known = known.or((unknown == 0).then_some(Duration::ZERO));
        let mut lags: Vec<String> = known.map(span).into_iter().collect();
        if unknown > 0 {
            lags.push(format!("unknown of {}", counted(unknown as u64, "part")));
        }
        let says = format!(
            "{} of change feeds read, lag {}",
            counted(parts.len() as u64, "part"),
            lags.join(", ")
        );
        return vec![Finding::ok("changefeed", says)];
    }
    let findings = failing.into_iter().take(MAX_PARTS).map(|part| {
        let what = format!("part {} of `{}`", part.part, part.processor);
        let lag = part.lag.map(|lag| format!(", lag {}", span(lag)));
        let lag = lag.unwrap_or_default();
        match &part.failure {
            Some(failure) => Finding::warning(
                "changefeed",
                format!(
                    "{what} waits after {}{lag}: {}",
                    counted(u64::from(failure.attempts), "failed attempt"),
                    short(&failure.reason, 200)
                ),
                "fix the handler, or let it store the change elsewhere and return `Ok`; {cdb} changes lists the parts",
            ),
            None => Finding::warning(
                "changefeed",
                format!("no process reads {what}{lag}"),
                "start a process that runs the processor; a stopped processor continues at its position",
            ),
        }
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_lag_is_not_reported_as_none() {
        let part = |seconds: Option<u64>| PartRow {
            processor: "invoices".to_owned(),
            part: "-FF".to_owned(),
            source: None,
            reader: Some("a".to_owned()),
            lag: seconds.map(Duration::from_secs),
            failure: None,
        };
        for (lags, says) in [
            (&[Some(0), Some(3)][..], "lag 3 s"),
            (&[Some(3), None], "lag 3 s, unknown of 1 part"),
            (&[None, None], "lag unknown of 2 parts"),
            (&[], "lag 0 ms"),
        ] {
            let parts: Vec<PartRow> = lags.iter().copied().map(part).collect();
            let found = feeds(&parts).remove(0);
            assert!(found.says.ends_with(says), "{}", found.says);
        }
    }
}
