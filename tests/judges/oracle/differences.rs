//! The known differences, each with the emulator that is right and the source. A difference without
//! an entry fails the test, and so does an entry that a whole run never needs.
//! differences.md lists them for users.

use std::fmt;

use serde_json::Value;

use crate::compare::{Seen, as_set};
use crate::operation::{Condition, Operation, Tag, Write};

/// An operation with both answers.
pub(crate) struct Meeting<'a> {
    pub(crate) operation: &'a Operation,
    pub(crate) ours: &'a Seen,
    pub(crate) theirs: &'a Seen,
}

/// The emulator that behaves like the service. There is no variant for theirs: in those cases ours
/// was corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    Ours,
    /// No source decides.
    Unknown,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ours => "ours",
            Self::Unknown => "unknown",
        })
    }
}

/// A known difference.
pub(crate) struct Difference {
    pub(crate) name: &'static str,
    pub(crate) right: Right,
    /// The aspect that differs. `None` if one emulator refuses the operation, so that all aspects
    /// may differ.
    aspect: Option<&'static str>,
    allows: fn(&Meeting<'_>) -> bool,
    /// The source of the rule.
    pub(crate) source: &'static str,
}

/// All of them.
pub(crate) const KNOWN: [Difference; 19] = [
    Difference {
        name: "ids that cannot be addressed",
        right: Right::Ours,
        aspect: None,
        allows: |meeting| {
            let illegal = |id: &str| id.contains(['/', '\\', '?', '#']) || id.ends_with(' ');
            let drawn = meeting.operation.touches();
            meeting.ours_refuse(400) && drawn.iter().any(|place| illegal(&place.id))
        },
        source: "Microsoft.Azure.Documents.Resource.Id: '/', '\\', '?', '#' are restricted; the service stores some such ids and cannot address them",
    },
    Difference {
        name: "a ttl of 0",
        right: Right::Ours,
        aspect: None,
        allows: |meeting| {
            matches!(meeting.operation, Operation::Write(_, _, body, _) if body["ttl"] == 0)
                && meeting.ours_refuse(400)
        },
        source: "time-to-live.md: a positive number or -1",
    },
    Difference {
        name: "sub-statuses of refusals",
        right: Right::Ours,
        aspect: Some("sub-status"),
        allows: |meeting| {
            meeting.theirs.answer.substatus == 0 && meeting.ours.answer.substatus == 1001
        },
        source: "the crate's own cosmos_status.rs: 1001 PartitionKeyMismatch",
    },
    Difference {
        name: "the sub-status of a violated unique key",
        right: Right::Unknown,
        aspect: Some("sub-status"),
        allows: |meeting| {
            meeting.theirs.answer.substatus == 0 && meeting.ours.answer.substatus == 3301
        },
        source: "cosmos_status.rs has 3301 UniqueIndexConflict, azure-cosmos-java docs/StatusCodes.md 409/0; the client reads the id",
    },
    Difference {
        name: "patches of system properties and ids",
        right: Right::Ours,
        aspect: None,
        allows: |meeting| {
            let system = ["/id", "/_ts", "/_etag", "/_rid", "/_self"];
            meeting.ours_refuse(400)
                && meeting.changes().iter().any(|change| {
                    let names = |key: &str| {
                        change[key]
                            .as_str()
                            .is_some_and(|path| system.contains(&path))
                    };
                    names("path") || names("from")
                })
        },
        source: "partial-document-update-faq.yml: system properties cannot be patched",
    },
    Difference {
        name: "incr of what is missing",
        right: Right::Ours,
        aspect: None,
        allows: |meeting| {
            meeting
                .changes()
                .iter()
                .any(|change| change["op"] == "incr")
                && meeting.theirs_say("missing path")
        },
        source: "partial-document-update.md: incr creates the field with the value",
    },
    Difference {
        name: "incr of a fraction by a whole number",
        right: Right::Ours,
        aspect: None,
        allows: |meeting| meeting.theirs_say("expected integer number, got fractional number"),
        source: "partial-document-update.md: incr takes both; all numbers are IEEE 754 doubles",
    },
    Difference {
        name: "conditions of patches",
        right: Right::Ours,
        aspect: None,
        allows: |meeting| {
            matches!(meeting.operation, Operation::Patch(_, patch, _) if patch["condition"].is_string())
                && meeting.ours_refuse(412)
        },
        source: "partial-document-update.md: a patch applies when its condition holds; theirs does not read it",
    },
    Difference {
        name: "If-None-Match of writes",
        right: Right::Ours,
        aspect: None,
        allows: |meeting| {
            let named = |condition: &Condition| condition.if_none_match.is_some();
            match meeting.operation {
                Operation::Write(Write::Upsert, _, _, condition) => {
                    named(condition) && meeting.ours_refuse(412)
                }
                Operation::Patch(_, _, condition) => named(condition) && meeting.theirs_refuse(412),
                Operation::Batch(_, steps) => {
                    let upsert = |kind: &str| kind == "Upsert";
                    steps
                        .iter()
                        .any(|step| upsert(step.kind) && named(&step.condition))
                        && (meeting.ours_refuse(412) || meeting.theirs_refuse(412))
                }
                _ => false,
            }
        },
        source: "RequestOptions.IfNoneMatchEtag: an upsert that replaces honours it, other writes ignore it",
    },
    Difference {
        name: "If-Match with a star",
        right: Right::Ours,
        aspect: None,
        allows: |meeting| {
            let star = |condition: &Condition| condition.if_match == Some(Tag::Any);
            let drawn = match meeting.operation {
                Operation::Write(_, _, _, condition) | Operation::Delete(_, condition) => {
                    star(condition)
                }
                Operation::Batch(_, steps) => steps.iter().any(|step| star(&step.condition)),
                _ => false,
            };
            drawn && meeting.theirs_refuse(412)
        },
        source: "RFC 9110 13.1.1; theirs honours it in patches and not elsewhere",
    },
    Difference {
        name: "patches in batches",
        right: Right::Ours,
        aspect: None,
        allows: |meeting| {
            matches!(meeting.operation, Operation::Batch(_, steps) if steps.iter().any(|step| step.kind == "Patch"))
                && meeting.theirs.answer.status == 400
        },
        source: "transactional-batch.md lists PatchItem; theirs does not know the operation",
    },
    Difference {
        name: "conditions of reads in batches",
        right: Right::Ours,
        aspect: None,
        allows: |meeting| meeting.read_ends_theirs(),
        source: "azure-cosmos-dotnet-v3#1581: a batch commits whatever the conditions of its reads say",
    },
    Difference {
        name: "VALUE of what is undefined",
        right: Right::Ours,
        aspect: Some("rows"),
        allows: |meeting| {
            let defined = |seen: &Seen| {
                as_set(
                    seen.rows
                        .iter()
                        .filter(|row| !row.is_null())
                        .cloned()
                        .collect(),
                )
            };
            matches!(meeting.operation, Operation::Query(query) if query.text.ours.contains("VALUE"))
                && meeting.ours.rows.len() < meeting.theirs.rows.len()
                && defined(meeting.ours) == defined(meeting.theirs)
        },
        source: "azure-cosmos-dotnet-v3, SqlInterpreter: rows that project to undefined are left out; theirs writes null",
    },
    Difference {
        name: "SUM of nothing",
        right: Right::Ours,
        aspect: Some("rows"),
        allows: |meeting| {
            matches!(meeting.operation, Operation::Query(query) if query.text.ours.contains("SUM("))
                && meeting.ours.rows == [Value::from(0)]
                && meeting.theirs.rows == [Value::Null]
        },
        source: "azure-cosmos-dotnet-v3, AggregateProjectionTransformer: a sum starts at 0",
    },
    Difference {
        name: "moves into arrays",
        right: Right::Unknown,
        aspect: None,
        allows: |meeting| {
            let into = |change: &Value| {
                let path = change["path"].as_str().unwrap_or_default();
                change["op"] == "move" && path.starts_with("/tags/")
            };
            meeting.changes().iter().any(into)
        },
        source: "partial-document-update.md has a move replace its target; RFC 6902 has it insert",
    },
    Difference {
        name: "incr behind an array's end",
        right: Right::Unknown,
        aspect: None,
        allows: |meeting| {
            let behind = |change: &Value| change["op"] == "incr" && change["path"] == "/tags/-";
            meeting.changes().iter().any(behind) && meeting.theirs_say("invalid array index '-'")
        },
        source: "partial-document-update.md: incr creates what is missing, of arrays it says nothing",
    },
    Difference {
        name: "moves of what is missing to where it is missing",
        right: Right::Ours,
        aspect: None,
        allows: |meeting| {
            let itself =
                |change: &Value| change["op"] == "move" && change["from"] == change["path"];
            meeting.ours_refuse(400) && meeting.changes().iter().any(itself)
        },
        source: "RFC 6902 4.4: what is moved must exist",
    },
    Difference {
        name: "GROUP BY of null and of what is undefined",
        right: Right::Ours,
        aspect: Some("rows"),
        allows: |meeting| {
            let of_values = |seen: &Seen| {
                let rows = seen.rows.iter().filter(|row| !row["key"].is_null());
                as_set(rows.cloned().collect())
            };
            matches!(meeting.operation, Operation::Query(query) if query.text.ours.contains("GROUP BY"))
                && meeting.ours.rows.len() == meeting.theirs.rows.len() + 1
                && of_values(meeting.ours) == of_values(meeting.theirs)
        },
        source: "azure-cosmos-dotnet-v3, SqlInterpreter: undefined is a key of its own; theirs makes it null",
    },
    Difference {
        name: "queries that a gateway cannot merge",
        right: Right::Ours,
        aspect: None,
        allows: |meeting| {
            matches!(meeting.operation, Operation::Query(query) if query.key.is_none())
                && meeting.ours_refuse(400)
                && meeting.ours.answer.substatus == 1004
        },
        source: "REST, querying resources: a cross-partition query that the gateway cannot serve is 400 with 1004",
    },
];

impl Meeting<'_> {
    /// Whether ours refuses, as a whole or in a step of a batch, with this status.
    fn ours_refuse(&self, status: u16) -> bool {
        self.ours.answer.status == status || self.step(self.ours, status)
    }

    fn theirs_refuse(&self, status: u16) -> bool {
        self.theirs.answer.status == status || self.step(self.theirs, status)
    }

    fn step(&self, seen: &Seen, status: u16) -> bool {
        let results = seen.answer.body.as_array().map_or(&[][..], Vec::as_slice);
        matches!(self.operation, Operation::Batch(..))
            && results.iter().any(|result| result["statusCode"] == status)
    }

    /// Whether the condition of a read ends their batch.
    fn read_ends_theirs(&self) -> bool {
        let Operation::Batch(_, steps) = self.operation else {
            return false;
        };
        let results = self.theirs.answer.body.as_array();
        let results = results.map_or(&[][..], Vec::as_slice);
        let mut reads = steps.iter().zip(results);
        reads.any(|(step, result)| {
            let status = &result["statusCode"];
            step.kind == "Read" && (*status == 304 || *status == 412)
        })
    }

    fn theirs_say(&self, text: &str) -> bool {
        let message = self
            .theirs
            .answer
            .body
            .get("message")
            .and_then(Value::as_str);
        self.theirs.answer.status == 400 && message.is_some_and(|message| message.contains(text))
    }

    /// The changes of a patch.
    fn changes(&self) -> &[Value] {
        match self.operation {
            Operation::Patch(_, patch, _) => {
                patch["operations"].as_array().map_or(&[], Vec::as_slice)
            }
            _ => &[],
        }
    }
}

/// The difference that allows two answers to differ in an aspect.
pub(crate) fn allowed(aspect: &str, meeting: &Meeting<'_>) -> Option<&'static str> {
    KNOWN
        .iter()
        .filter(|difference| difference.aspect.is_none_or(|known| known == aspect))
        .find(|difference| (difference.allows)(meeting))
        .map(|difference| difference.name)
}
