//! What an outcome means for the next step. A pure function: no clock, no network, no randomness.

use std::time::Duration;

use crate::status::Status;
use crate::transport::Delivery;

/// Whether a request may be sent again when nobody knows whether it was carried out.
///
/// The official clients disagree on writes (protocol.md 9.5). Here a write is repeated blindly only where the second
/// execution leaves what the first left: an upsert, replace or delete without ETag, which promised nothing about what
/// was there before. A create or a conditional write is not: its own first execution would make the second fail with
/// 409, 412 or 404, and the caller could not tell that from a real refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// A second execution does no harm.
    Always,
    /// Only when the service certainly did not carry it out.
    UnlessPossiblyDone,
}

/// How one attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The service answered.
    Answered {
        status: Status,
        /// `x-ms-retry-after-ms`.
        retry_after: Option<Duration>,
    },
    /// No whole answer came, or none in time.
    NoAnswer(Delivery),
}

/// What happened before this outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tries {
    /// Earlier attempts that ended in 401, or in the 403 of a date that is not the service's.
    pub unauthorized: u32,
    /// The request names a physical partition, so only the caller can address it anew.
    pub addressed_to_range: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The answer is the result.
    Accept,
    /// The answer is the error.
    Refuse,
    /// Give up, and say that the write may have taken effect.
    RefuseAmbiguous,
    /// Try again at once, signed anew.
    RetrySigned,
    /// Try again after a wait; what the service asked for, if it did.
    RetryAfter(Option<Duration>),
}

impl Outcome {
    /// Whether a write may have taken effect: 408 and 500 are given by the service in the middle of work, 502 and 504
    /// by proxies that do not know. 503 is given only for what was not begun.
    pub(crate) fn is_unknown(self) -> bool {
        match self {
            Self::Answered { status, .. } => matches!(status.code, 408 | 500 | 502 | 504),
            Self::NoAnswer(delivery) => matches!(delivery, Delivery::Unknown | Delivery::TooLong),
        }
    }

    /// Whether a refusal that follows may be about this attempt itself. Besides open outcomes that is a 503: the service
    /// gives it only for what was not begun, so it is sent again, but a proxy may make one up (protocol.md 9.1).
    pub(crate) fn is_doubtful(self) -> bool {
        let made_up = matches!(self, Self::Answered { status, .. } if status.code == 503);
        made_up || self.is_unknown()
    }
}

/// Decides about one outcome.
///
/// | outcome | any request | create, conditional write, batch |
/// |---|---|---|
/// | 2xx, 304 | accept | |
/// | 401 | again twice, signed anew with the service's date and the other key | |
/// | 403/0 (among others: signed at a time that is not the service's, vscode-cosmosdb#842) | once again, as 401 | |
/// | 404/1002, 404/1013 (replica behind, container in creation) | again | |
/// | 410/1002 (range gone) | again; refuse if addressed to that range | |
/// | other 410 (moving, splitting, stale name) | again | |
/// | 429, 449, 503 (not carried out) | again, 429 after the time asked for | |
/// | no connection | again | |
/// | certificate not trusted | refuse | |
/// | 408, 500, 502, 504, no answer | again | refuse, unresolved |
/// | answer too long | refuse | refuse, unresolved |
/// | everything else | refuse | |
///
/// Source: protocol.md 9.1 (azure_data_cosmos_driver `cosmos_status.rs`, `retry_evaluation.rs`).
pub(crate) fn verdict(repeat: Repeat, tries: Tries, outcome: Outcome) -> Verdict {
    match outcome {
        Outcome::NoAnswer(Delivery::Untrusted) => return Verdict::Refuse,
        Outcome::NoAnswer(Delivery::TooLong) => return Verdict::RefuseAmbiguous,
        _ => {}
    }
    if outcome.is_unknown() {
        return match repeat {
            Repeat::Always => Verdict::RetryAfter(None),
            Repeat::UnlessPossiblyDone => Verdict::RefuseAmbiguous,
        };
    }
    let Outcome::Answered {
        status,
        retry_after,
    } = outcome
    else {
        return Verdict::RetryAfter(None);
    };
    match status.code {
        _ if status.is_success() => Verdict::Accept,
        401 if tries.unauthorized < 2 => Verdict::RetrySigned,
        403 if status.sub == 0 && tries.unauthorized < 1 => Verdict::RetrySigned,
        404 if matches!(
            status,
            Status::SESSION_NOT_AVAILABLE | Status::CONTAINER_IN_CREATION
        ) =>
        {
            Verdict::RetryAfter(None)
        }
        410 if status == Status::RANGE_GONE && tries.addressed_to_range => Verdict::Refuse,
        410 | 449 | 503 => Verdict::RetryAfter(None),
        429 => Verdict::RetryAfter(retry_after),
        _ => Verdict::Refuse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u16, sub: u32) -> Outcome {
        Outcome::Answered {
            status: Status::new(code, sub),
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
            verdict(Repeat::UnlessPossiblyDone, tries, outcome),
            unless_done,
            "{outcome:?}"
        );
    }

    const AGAIN: Verdict = Verdict::RetryAfter(None);

    #[test]
    fn successes_are_accepted() {
        for code in [200, 201, 204, 207, 304] {
            check(answered(code, 0), Verdict::Accept, Verdict::Accept);
        }
    }

    #[test]
    fn what_was_certainly_not_carried_out_is_always_tried_again() {
        for (code, sub) in [
            (410, 1000),
            (410, 1007),
            (410, 1008),
            (410, 1002),
            (449, 0),
            (503, 0),
            (404, 1002),
            (404, 1013),
        ] {
            check(answered(code, sub), AGAIN, AGAIN);
        }
        check(Outcome::NoAnswer(Delivery::NotSent), AGAIN, AGAIN);
    }

    #[test]
    fn what_may_have_been_carried_out_is_repeated_only_where_that_does_no_harm() {
        for code in [408, 500, 502, 504] {
            check(answered(code, 0), AGAIN, Verdict::RefuseAmbiguous);
        }
        check(
            Outcome::NoAnswer(Delivery::Unknown),
            AGAIN,
            Verdict::RefuseAmbiguous,
        );
    }

    #[test]
    fn refusals_of_the_service_are_final() {
        for (code, sub) in [
            (400, 0),
            (400, 1004),
            (403, 3),
            (403, 1014),
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
    fn what_asking_again_cannot_change_is_final() {
        let untrusted = Outcome::NoAnswer(Delivery::Untrusted);
        check(untrusted, Verdict::Refuse, Verdict::Refuse);
        assert!(!untrusted.is_unknown());
        let too_long = Outcome::NoAnswer(Delivery::TooLong);
        check(too_long, Verdict::RefuseAmbiguous, Verdict::RefuseAmbiguous);
        assert!(too_long.is_unknown());
    }

    #[test]
    fn throttling_waits_as_long_as_the_service_asks() {
        let asked = Some(Duration::from_millis(120));
        let outcome = Outcome::Answered {
            status: Status::new(429, 3200),
            retry_after: asked,
        };
        check(
            outcome,
            Verdict::RetryAfter(asked),
            Verdict::RetryAfter(asked),
        );
    }

    #[test]
    fn a_refused_signature_is_made_anew_twice_and_a_refused_date_once() {
        let verdict_after = |unauthorized, code| {
            let tries = Tries {
                unauthorized,
                ..Tries::default()
            };
            verdict(Repeat::UnlessPossiblyDone, tries, answered(code, 0))
        };
        assert_eq!(verdict_after(0, 401), Verdict::RetrySigned);
        assert_eq!(verdict_after(1, 401), Verdict::RetrySigned);
        assert_eq!(verdict_after(2, 401), Verdict::Refuse);
        assert_eq!(verdict_after(0, 403), Verdict::RetrySigned);
        assert_eq!(verdict_after(1, 403), Verdict::Refuse);
    }

    #[test]
    fn a_request_to_a_range_that_is_gone_goes_back_to_the_caller() {
        let tries = Tries {
            addressed_to_range: true,
            ..Tries::default()
        };
        assert_eq!(
            verdict(Repeat::Always, tries, answered(410, 1002)),
            Verdict::Refuse
        );
        assert_eq!(verdict(Repeat::Always, tries, answered(410, 1007)), AGAIN);
    }
}
