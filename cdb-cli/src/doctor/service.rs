//! Checks of the account: endpoint, permissions, clock, throttling.

use std::time::Duration;

use cdb_client::throughput::Usage;
use cdb_client::{ContainerClient, Error, ErrorKind};
use cdb_provider::documents::{Durable, InboxRecordKey, InstanceKey};

use super::finding::Finding;
use crate::connection::Connection;
use crate::exit::causes::with_causes;
use crate::exit::{Failure, remedy};
use crate::output::span;

/// The service rejects signatures that are 15 minutes off. Half of it leaves time to act.
const CLOCK_PROBLEM: Duration = Duration::from_secs(450);

/// Locks use the service's clock, so a smaller offset only shows that the machine's clock is not
/// synchronized.
const CLOCK_WARNING: Duration = Duration::from_secs(2);

/// The id of the documents that the permission checks read and delete. No such document exists.
const PROBE: &str = "cdb-doctor";

pub(super) fn endpoint(connection: &Connection) -> Finding {
    let endpoint = connection.shown_endpoint();
    if endpoint.starts_with("https://") {
        Finding::ok("endpoint", format!("{endpoint}, encrypted"))
    } else if connection.is_loopback() {
        Finding::ok(
            "endpoint",
            format!("{endpoint}, not encrypted, on this machine"),
        )
    } else {
        Finding::problem(
            "endpoint",
            format!("{endpoint}: requests and documents are not encrypted"),
            "use the account's https:// endpoint",
        )
    }
}

/// Returns the finding for an error of reading the container's definition.
pub(super) fn unreadable(error: &Error, is_emulator: bool) -> Finding {
    let check = match error.kind() {
        ErrorKind::Unauthorized => "credentials",
        ErrorKind::Forbidden => "rights",
        ErrorKind::NotFound => "container",
        ErrorKind::Throttled => "throttling",
        ErrorKind::Untrusted => "tls",
        _ => "endpoint",
    };
    let remedy = remedy::of(error).unwrap_or("check --endpoint: the server is not an account");
    let remedy = remedy::here(remedy, is_emulator);
    Finding::problem(check, with_causes(error), remedy)
}

/// Compares the machine's clock with the service's clock.
pub(super) fn clock(ahead_millis: Option<i64>) -> Finding {
    let Some(ahead) = ahead_millis else {
        return Finding::warning(
            "clock",
            "the responses of the service have no date",
            "look for a proxy that removes headers",
        );
    };
    let offset = Duration::from_millis(ahead.unsigned_abs());
    let (direction, shown) = (if ahead > 0 { "behind" } else { "ahead of" }, span(offset));
    let remedy = "synchronize this machine's clock (chrony, systemd-timesyncd, w32time)";
    if offset >= CLOCK_PROBLEM {
        let says = format!(
            "this machine is {shown} {direction} the service, which rejects signatures at 15 minutes"
        );
        Finding::problem("clock", says, remedy)
    } else if offset >= CLOCK_WARNING {
        Finding::warning(
            "clock",
            format!("this machine is {shown} {direction} the service"),
            remedy,
        )
    } else {
        Finding::ok("clock", "within two seconds of the service")
    }
}

/// Checks the permissions for documents. The write check deletes a document that does not exist:
/// the service checks the permission first.
pub(super) async fn rights(container: &ContainerClient<Durable>) -> Result<Vec<Finding>, Failure> {
    let read = container.read(&InstanceKey::new(PROBE)).await.map(drop);
    let write = match container
        .run(InboxRecordKey::new(PROBE, PROBE, 0_u64).delete())
        .await
    {
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    };
    let mut findings = Vec::new();
    for (result, what, remedy) in [
        (
            read,
            "read",
            "grant a role that can read documents, such as `Cosmos DB Built-in Data Reader`",
        ),
        (
            write,
            "write",
            "use a read-write key, or grant `Cosmos DB Built-in Data Contributor`; runtimes need it, read-only commands do not",
        ),
    ] {
        match result {
            Ok(()) => findings.push(Finding::ok("rights", format!("can {what} documents"))),
            Err(error) if error.kind() == ErrorKind::Forbidden => {
                let says = format!("cannot {what} documents");
                findings.push(Finding::problem("rights", says, remedy));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(findings)
}

/// Reports whether the requests of these checks were throttled.
pub(super) fn throttling(usage: &Usage) -> Finding {
    let total = usage.total();
    let (requests, throttled) = (total.requests, total.throttled);
    if throttled == 0 {
        let says = format!(
            "0 of {requests} requests were throttled; they cost {:.0} RU",
            total.charge
        );
        return Finding::ok("throttling", says);
    }
    Finding::warning(
        "throttling",
        format!("{throttled} of {requests} requests were throttled (429) and retried"),
        "raise the container's request units or use autoscale; if one partition is hot, spread its load",
    )
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn a_clock_offset_is_reported_in_both_directions() {
        for (ahead, level) in [
            (Some(0), Level::Ok),
            (Some(-1_900), Level::Ok),
            (Some(3_000), Level::Warning),
            (Some(-3_000), Level::Warning),
            (Some(600_000), Level::Problem),
            (Some(i64::MIN), Level::Problem),
            (None, Level::Warning),
        ] {
            assert_eq!(clock(ahead).level, level, "{ahead:?}");
        }
        assert!(clock(Some(3_000)).says.contains("3 s behind"));
    }
}
