//! Decides what to do after an attempt. A pure function: no clock, no network, no randomness.

use std::time::Duration;

use crate::error::ResponseStatus;
use crate::protocol::{Outcome, Repeat};
use crate::transport::Delivery;

/// The state of a call before this outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tries {
    /// Earlier attempts that ended in 401, or in a 403 because of a wrong date.
    pub unauthorized: u32,
    /// Answers that the physical partition is being split or moved.
    pub moving: u32,
    /// The request names a physical partition, so only the caller can choose another one.
    pub addressed_to_range: bool,
    /// The service has accepted such a request (a read, a write) from this client, so a refusal of
    /// the identity is probably temporary: a rotated key, a role that has not reached all nodes.
    pub granted: bool,
}

/// What to do after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The answer is the result.
    Accept,
    /// The answer is the error.
    Refuse,
    /// Give up. The write may have taken effect.
    RefuseAmbiguous,
    /// Try again.
    Retry(Retry),
}

/// How a request is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// At once, with a new signature.
    Signed,
    /// After this delay, or after the backoff delay.
    After(Option<Duration>),
    /// After 0.2 to 1 s, with a new signature: a partition moves, or rights change.
    Slowly,
    /// At the endpoint that the account document names.
    Rerouted,
}

/// The answers about a moving range after which its caller looks for another one; about 2 s.
const MOST_MOVING: u32 = 3;

/// Decides what to do after an outcome.
///
/// | outcome | any request | create, conditional write, batch |
/// |---|---|---|
/// | 2xx, 304 | accept | |
/// | 401 | retry twice, with a new signature: the service's date, the other key; then as 403/530x | |
/// | 403/0 (may be caused by a wrong date, vscode-cosmosdb#842) | retry once, as 401; then as 403/530x | |
/// | 403/5300 to 403/5302 (role) | retry slowly if such a request was accepted before, else refuse | |
/// | 403/3, 403/1008 (write region moved, region removed) | read the account document, retry | |
/// | 404/1002, 404/1013 (replica behind, container in creation) | retry | |
/// | 410/1002 (range gone) | retry slowly; refuse if addressed to that range | |
/// | 410/1007, 410/1008 (split or move completes) | retry slowly; refuse the fourth if addressed to that range | |
/// | other 410 (moving, splitting, stale name) | retry slowly | |
/// | 429, 449, 503 (not executed) | retry, 429 after the requested delay | |
/// | no connection | retry | |
/// | certificate not trusted | refuse | |
/// | 408, 500, 502, 504, no answer | retry | refuse as ambiguous |
/// | answer too long | refuse | refuse as ambiguous |
/// | everything else | refuse | |
///
/// Source: azure_data_cosmos_driver `cosmos_status.rs`, `retry_evaluation.rs`.
pub(crate) fn verdict(repeat: Repeat, tries: Tries, outcome: Outcome) -> Verdict {
    match outcome {
        Outcome::NoAnswer(Delivery::Untrusted) => return Verdict::Refuse,
        Outcome::NoAnswer(Delivery::TooLong) => return Verdict::RefuseAmbiguous,
        _ => {}
    }
    if outcome.is_unknown() {
        return match repeat {
            Repeat::Always => Verdict::Retry(Retry::After(None)),
            Repeat::IfNotExecuted => Verdict::RefuseAmbiguous,
        };
    }
    let Outcome::Answered {
        status,
        retry_after,
    } = outcome
    else {
        return Verdict::Retry(Retry::After(None));
    };
    match status.code {
        _ if status.is_success() => Verdict::Accept,
        401 if tries.unauthorized < 2 => Verdict::Retry(Retry::Signed),
        403 if status.sub == 0 && tries.unauthorized < 1 => Verdict::Retry(Retry::Signed),
        401 if tries.granted => Verdict::Retry(Retry::Slowly),
        403 if tries.granted && matches!(status.sub, 0 | 5300..=5302) => {
            Verdict::Retry(Retry::Slowly)
        }
        403 if matches!(
            status,
            ResponseStatus::WRITE_FORBIDDEN | ResponseStatus::ACCOUNT_NOT_FOUND
        ) =>
        {
            Verdict::Retry(Retry::Rerouted)
        }
        404 if matches!(
            status,
            ResponseStatus::SESSION_NOT_AVAILABLE | ResponseStatus::CONTAINER_IN_CREATION
        ) =>
        {
            Verdict::Retry(Retry::After(None))
        }
        410 if status == ResponseStatus::RANGE_GONE && tries.addressed_to_range => Verdict::Refuse,
        // The caller lists the ranges again, as the official clients do at once
        // (azure_data_cosmos_driver, `is_partition_topology_change`).
        410 if status.is_moving() && tries.addressed_to_range && tries.moving > MOST_MOVING => {
            Verdict::Refuse
        }
        410 => Verdict::Retry(Retry::Slowly),
        449 | 503 => Verdict::Retry(Retry::After(None)),
        429 => Verdict::Retry(Retry::After(retry_after)),
        _ => Verdict::Refuse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u16, sub: u32) -> Outcome {
        Outcome::Answered {
            status: ResponseStatus::new(code, sub),
            retry_after: None,
        }
    }

    #[track_caller]
    fn check(outcome: Outcome, always: Verdict, unless_done: Verdict) {
        let tries = Tries::default();
        assert_eq!(
            verdict(Repeat::Always, tries, outcome),
            always,
            "{outcome:?}"
        );
        assert_eq!(
            verdict(Repeat::IfNotExecuted, tries, outcome),
            unless_done,
            "{outcome:?}"
        );
    }

    const RETRY: Verdict = Verdict::Retry(Retry::After(None));

    #[test]
    fn successes_are_accepted() {
        for code in [200, 201, 204, 207, 304] {
            check(answered(code, 0), Verdict::Accept, Verdict::Accept);
        }
    }

    #[test]
    fn a_request_that_was_not_executed_is_always_retried() {
        for (code, sub) in [(449, 0), (503, 0), (404, 1002), (404, 1013)] {
            check(answered(code, sub), RETRY, RETRY);
        }
        for sub in [1000, 1002, 1007, 1008] {
            let slowly = Verdict::Retry(Retry::Slowly);
            check(answered(410, sub), slowly, slowly);
        }
        for sub in [3, 1008] {
            check(
                answered(403, sub),
                Verdict::Retry(Retry::Rerouted),
                Verdict::Retry(Retry::Rerouted),
            );
        }
        check(Outcome::NoAnswer(Delivery::NotSent), RETRY, RETRY);
    }

    #[test]
    fn a_request_that_may_have_been_executed_is_retried_only_if_repeatable() {
        for code in [408, 500, 502, 504] {
            check(answered(code, 0), RETRY, Verdict::RefuseAmbiguous);
        }
        check(
            Outcome::NoAnswer(Delivery::Unknown),
            RETRY,
            Verdict::RefuseAmbiguous,
        );
    }

    #[test]
    fn refusals_of_the_service_are_final() {
        for (code, sub) in [
            (400, 0),
            (400, 1004),
            (403, 1014),
            (403, 1028),
            (403, 5300),
            (403, 5301),
            (403, 5302),
            (404, 0),
            (404, 1003),
            (409, 0),
            (409, 3301),
            (412, 0),
            (413, 0),
            (424, 0),
        ] {
            check(answered(code, sub), Verdict::Refuse, Verdict::Refuse);
        }
    }

    #[test]
    fn a_failure_that_a_retry_cannot_change_is_final() {
        let untrusted = Outcome::NoAnswer(Delivery::Untrusted);
        check(untrusted, Verdict::Refuse, Verdict::Refuse);
        assert!(!untrusted.is_unknown());
        let too_long = Outcome::NoAnswer(Delivery::TooLong);
        check(too_long, Verdict::RefuseAmbiguous, Verdict::RefuseAmbiguous);
        assert!(too_long.is_unknown());
    }

    #[test]
    fn a_throttled_request_waits_as_long_as_the_service_asks() {
        let retry_after = Some(Duration::from_millis(120));
        let outcome = Outcome::Answered {
            status: ResponseStatus::new(429, 3200),
            retry_after,
        };
        let retry = Verdict::Retry(Retry::After(retry_after));
        check(outcome, retry, retry);
    }

    #[test]
    fn a_refused_signature_is_retried_twice_and_a_refused_date_once() {
        let verdict_after = |unauthorized, code| {
            let tries = Tries {
                unauthorized,
                ..Tries::default()
            };
            verdict(Repeat::IfNotExecuted, tries, answered(code, 0))
        };
        assert_eq!(verdict_after(0, 401), Verdict::Retry(Retry::Signed));
        assert_eq!(verdict_after(1, 401), Verdict::Retry(Retry::Signed));
        assert_eq!(verdict_after(2, 401), Verdict::Refuse);
        assert_eq!(verdict_after(0, 403), Verdict::Retry(Retry::Signed));
        assert_eq!(verdict_after(1, 403), Verdict::Refuse);
    }

    #[test]
    fn rights_that_were_granted_before_are_awaited() {
        let granted = Tries {
            unauthorized: 2,
            granted: true,
            ..Tries::default()
        };
        let after = |code, sub| verdict(Repeat::IfNotExecuted, granted, answered(code, sub));
        for (code, sub) in [(401, 0), (403, 0), (403, 5300), (403, 5301), (403, 5302)] {
            assert_eq!(
                after(code, sub),
                Verdict::Retry(Retry::Slowly),
                "{code}/{sub}"
            );
        }
        for sub in [1014, 1028] {
            assert_eq!(after(403, sub), Verdict::Refuse, "403/{sub}");
        }
    }

    #[test]
    fn a_request_addressed_to_a_removed_range_is_refused() {
        let tries = Tries {
            addressed_to_range: true,
            ..Tries::default()
        };
        assert_eq!(
            verdict(Repeat::Always, tries, answered(410, 1002)),
            Verdict::Refuse
        );
        for sub in [1007, 1008] {
            let after = |moving| {
                let tries = Tries { moving, ..tries };
                verdict(Repeat::Always, tries, answered(410, sub))
            };
            assert_eq!(after(MOST_MOVING), Verdict::Retry(Retry::Slowly));
            assert_eq!(after(MOST_MOVING + 1), Verdict::Refuse);
        }
    }
}
