//! Requests about limited keys: the patches of the protocol in the service's form.

use std::collections::BTreeMap;
use std::sync::Arc;

use cdb_client::{ContainerClient, Error};
use cdb_model::{Document as _, Patch};

use crate::queue::limits::protocol::{
    self, Answer, Condition, Entry, Field, Key, Line, Operation, Request, RuntimeId,
};
use crate::stored::documents::{Durable, LimitedKey};

/// Sends a request.
///
/// # Errors
/// When the request may have been applied, or may be applied later.
pub(super) async fn send(
    container: &ContainerClient<Durable>,
    key: &Key,
    request: &Request,
) -> Result<Answer, Error> {
    let address = LimitedKey::key_of(key);
    match request {
        Request::Read => {
            let stored = container.read(&address).await?;
            Ok(stored.map_or(Answer::Missing, |stored| {
                Answer::Line(Arc::new(line_of(stored.document)))
            }))
        }
        Request::Create(line) => match container.run(document_of(key, line).create()).await {
            Ok(_) => Ok(Answer::Line(Arc::new(line.clone()))),
            Err(error) if error.is_conflict() => Ok(Answer::Refused),
            Err(error) => without_effect(error),
        },
        Request::Patch(patch) => {
            let patch = patch_of(patch).at(&address);
            match container.patch_and_read(patch).await {
                Ok(stored) => Ok(Answer::Line(Arc::new(line_of(stored.document)))),
                Err(error) => without_effect(error),
            }
        }
    }
}

/// Returns the answer to a write that had no effect.
fn without_effect(error: Error) -> Result<Answer, Error> {
    if error.is_ambiguous() {
        return Err(error);
    }
    match error {
        error if error.is_precondition_failed() => Ok(Answer::Refused),
        error if error.is_not_found() => Ok(Answer::Missing),
        error if error.is_transient() => Ok(Answer::Busy),
        error => Err(error),
    }
}

/// Returns what it means that a request has no answer.
pub(super) fn unanswered(request: &Request) -> Answer {
    match request {
        Request::Read => Answer::Busy,
        Request::Create(_) | Request::Patch(_) => Answer::Lost,
    }
}

fn line_of(document: LimitedKey) -> Line {
    let holders = document.patches.iter().map(|(id, seq)| {
        let of = |entries: &BTreeMap<String, i64>| entries.get(id).copied().unwrap_or_default();
        let entry = Entry {
            held: of(&document.held),
            seq: *seq,
            since: of(&document.since),
            wants: of(&document.wants),
        };
        (RuntimeId::from(id.as_str()), entry)
    });
    let holders = holders.collect();
    Line {
        rule: document.rule,
        cap: document.cap,
        free: document.free,
        tat: document.next_start,
        by: document
            .reserved_by
            .map(|id| (id.into(), document.reserved_in)),
        holders,
    }
}

fn document_of(key: &Key, line: &Line) -> LimitedKey {
    let entries = |part: fn(&Entry) -> i64| {
        let entries = line.holders.iter();
        entries
            .map(|(id, entry)| (id.to_string(), part(entry)))
            .collect()
    };
    LimitedKey {
        rule: line.rule,
        cap: line.cap,
        free: line.free,
        next_start: line.tat,
        reserved_by: line.by.as_ref().map(|(id, _)| id.to_string()),
        reserved_in: line.by.as_ref().map_or(0, |(_, seq)| *seq),
        held: entries(|entry| entry.held),
        patches: entries(|entry| entry.seq),
        since: entries(|entry| entry.since),
        wants: entries(|entry| entry.wants),
        ..LimitedKey::new(key)
    }
}

fn patch_of(patch: &protocol::Patch) -> Patch<LimitedKey> {
    let conditions = patch.conditions.iter();
    let conditional = conditions.fold(Patch::new(), when);
    patch.operations.iter().fold(conditional, change)
}

fn when(patch: Patch<LimitedKey>, condition: &Condition) -> Patch<LimitedKey> {
    match condition {
        Condition::Equals(field, value) => match place(field) {
            Place::Number(number) => patch.when_eq(number, *value),
            Place::Entry(entry) => patch.when_entry_eq(&entry, *value),
        },
        Condition::AtLeast(field, value) => match place(field) {
            Place::Number(number) => patch.when_ge(number, *value),
            Place::Entry(entry) => patch.when_entry_ge(&entry, *value),
        },
        Condition::TatBelow(value) => patch.when_lt(LimitedKey::NEXT_START, *value),
        Condition::HasNoEntry(id) => patch.when_no_entry(&LimitedKey::PATCHES.entry(&**id)),
    }
}

fn change(patch: Patch<LimitedKey>, operation: &Operation) -> Patch<LimitedKey> {
    match operation {
        Operation::Add(field, by) => match place(field) {
            Place::Number(number) => patch.incr(number, *by),
            Place::Entry(entry) => patch.incr_entry(&entry, *by),
        },
        Operation::Set(field, to) => match place(field) {
            Place::Number(number) => patch.set(number, *to),
            Place::Entry(entry) => patch.set_entry(&entry, *to),
        },
        Operation::SetBy(id, seq) => patch
            .set(LimitedKey::RESERVED_BY, id.to_string())
            .set(LimitedKey::RESERVED_IN, *seq),
        Operation::Insert(id) => patch
            .set_entry(&LimitedKey::HELD.entry(&**id), 0)
            .set_entry(&LimitedKey::PATCHES.entry(&**id), 0),
        Operation::Remove(id) => patch
            .remove_entry(&LimitedKey::HELD.entry(&**id))
            .remove_entry(&LimitedKey::PATCHES.entry(&**id))
            .remove_entry(&LimitedKey::SINCE.entry(&**id))
            .remove_entry(&LimitedKey::WANTS.entry(&**id)),
    }
}

/// The place of a number in the document.
enum Place {
    Number(NumberPath),
    Entry(EntryPath),
}

type NumberPath = cdb_model::document::Path<
    LimitedKey,
    i64,
    cdb_model::document::Unindexed,
    cdb_model::document::Patchable,
>;

type EntryPath = cdb_model::operation::EntryPath<LimitedKey, i64, cdb_model::document::Patchable>;

fn place(field: &Field) -> Place {
    match field {
        Field::Rule => Place::Number(LimitedKey::RULE),
        Field::Cap => Place::Number(LimitedKey::CAP),
        Field::Free => Place::Number(LimitedKey::FREE),
        Field::Tat => Place::Number(LimitedKey::NEXT_START),
        Field::Held(id) => Place::Entry(LimitedKey::HELD.entry(&**id)),
        Field::Seq(id) => Place::Entry(LimitedKey::PATCHES.entry(&**id)),
        Field::Since(id) => Place::Entry(LimitedKey::SINCE.entry(&**id)),
        Field::Wants(id) => Place::Entry(LimitedKey::WANTS.entry(&**id)),
    }
}
