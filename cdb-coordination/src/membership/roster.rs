//! The requests of a member: join, heartbeat, remove, leave. Each change is one batch under the
//! ETags of all documents that it replaces.
//!
//! After a lost answer the member's own document is read: its incarnation tells whether it still
//! belongs to this process.

use std::marker::PhantomData;
use std::time::Duration;

use cdb_client::{ContainerClient, Error};
use cdb_model::container::MemberOf;
use cdb_model::document::Read;
use cdb_model::operation::{BatchError, OperationIndex};
use cdb_model::{Batch, Container, Document, DocumentKey as _, ETag, PartitionKey, Stored};

use super::config::MembershipConfig;
use super::document::{MemberDocument, MemberRecord, SCHEMA_VERSION};
use super::failure_detector::Sighting;
use crate::lease::is_lost_race;
use crate::timing::ROSTER_PAUSE;

/// The name of the roster document. The document of a member has the prefix `member.`, so names
/// cannot collide.
const ROSTER: &str = "roster";

/// How often a change is tried when other members are faster.
const TRIES: u32 = 16;

/// The reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RosterError {
    /// Another process has joined under this member's name.
    #[error("another process has joined under this member's name")]
    Replaced,
    /// This member was removed from the roster.
    #[error("this member is not on the roster")]
    Removed,
    /// No answer within the interval. The outcome is unknown.
    #[error("no answer within a heartbeat")]
    Late,
    /// A newer release has written the roster.
    #[error(
        "the roster has schema version {stored}, and this release supports up to {SCHEMA_VERSION}: use the release that wrote it or a newer one"
    )]
    NewerSchema { stored: u32 },
    #[error(transparent)]
    Client(#[from] Error),
    #[error(transparent)]
    Batch(#[from] BatchError),
}

/// Why a heartbeat was refused.
enum Refused {
    /// The watched member at this index has no document.
    NoDocument(usize),
    /// The member's own document has another version.
    OwnChanged,
    Other(RosterError),
}

impl<E: Into<RosterError>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

/// A version of the roster.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    /// In ascending order.
    pub(super) members: Vec<String>,
    /// The version; `None` while there is no roster.
    etag: Option<ETag>,
}

impl Listed {
    pub(super) fn contains(&self, member: &str) -> bool {
        self.members.iter().any(|known| known == member)
    }
}

/// What one heartbeat has read, from one snapshot.
#[derive(Debug)]
pub(super) struct Beat {
    pub(super) listed: Listed,
    pub(super) sightings: Vec<Sighting>,
    /// Listed on the roster but without a document, so not alive.
    pub(super) missing: Vec<String>,
}

/// The access of one member to its group.
pub(super) struct Roster<C, D> {
    container: ContainerClient<C>,
    config: MembershipConfig,
    incarnation: String,
    /// The version of the member's own document; unknown after a lost answer.
    own: Option<ETag>,
    marker: PhantomData<fn() -> D>,
}

impl<C: Container, D: MemberDocument + MemberOf<C>> Roster<C, D> {
    pub(super) fn new(
        container: ContainerClient<C>,
        config: MembershipConfig,
        incarnation: &str,
    ) -> Self {
        Self {
            container,
            config,
            incarnation: incarnation.to_owned(),
            own: None,
            marker: PhantomData,
        }
    }

    /// Puts this process on the roster. It replaces a process with the same name, whose slots do
    /// not move.
    pub(super) async fn join(&mut self) -> Result<Listed, RosterError> {
        self.enter(false).await
    }

    /// Joins again after a removal. If another process has taken the name since, that process stays
    /// the member.
    pub(super) async fn rejoin(&mut self) -> Result<Listed, RosterError> {
        self.enter(true).await
    }

    async fn enter(&mut self, again: bool) -> Result<Listed, RosterError> {
        let mut tries = 0;
        loop {
            let own = self.find(&self.own_name()).await?;
            let is_ours = own.as_ref().is_some_and(|own| self.is_ours(own));
            if again && own.is_some() && !is_ours {
                return Err(RosterError::Replaced);
            }
            let mut listed = self.listed().await?;
            let on_roster = listed.contains(&self.config.member);
            self.own = own.map(|own| own.etag);
            if is_ours && on_roster {
                return Ok(listed);
            }
            let mut batch = self.batch();
            match &self.own {
                Some(etag) => batch.add(self.heartbeat().replace().if_match(etag))?,
                None => batch.add(self.heartbeat().create())?,
            };
            if !on_roster {
                listed.members.push(self.config.member.clone());
                self.write_roster(&mut batch, &listed)?;
            }
            match self.container.execute(&batch).await {
                // The next round reads the result.
                Ok(_) => {}
                Err(error) if tries < TRIES && (is_lost_race(&error) || error.is_ambiguous()) => {}
                Err(error) => return Err(error.into()),
            }
            self.pause(tries).await;
            tries += 1;
        }
    }

    /// Writes a heartbeat, and reads the roster and the watched members. One request, unless a
    /// member has just left or an answer was lost.
    pub(super) async fn beat(&mut self, watched: &[String]) -> Result<Beat, RosterError> {
        let mut watched = watched.to_vec();
        let mut missing: Vec<String> = Vec::new();
        loop {
            let etag = match self.own.take() {
                Some(etag) => etag,
                None => self.find_own().await?,
            };
            match self.try_beat(&etag, &watched).await {
                Ok(mut beat) => {
                    missing.retain(|name| beat.listed.contains(name));
                    beat.missing = missing;
                    return Ok(beat);
                }
                // Nothing was written. The next try does not read the missing member.
                Err(Refused::NoDocument(at)) => {
                    self.own = Some(etag);
                    missing.push(watched.remove(at));
                }
                // Written by a request whose answer was lost, or by another process with this name.
                Err(Refused::OwnChanged) => {}
                Err(Refused::Other(error)) => return Err(error),
            }
        }
    }

    async fn try_beat(&mut self, etag: &ETag, watched: &[String]) -> Result<Beat, Refused> {
        let mut batch = self.batch();
        let own = batch.add(self.heartbeat().replace().if_match(etag))?;
        let roster = batch.add(Read::new(&self.key(ROSTER)))?;
        let others = watched
            .iter()
            .map(|name| batch.add(Read::new(&self.key(&document_name(name)))))
            .collect::<Result<Vec<_>, _>>()?;
        let outcome = self.container.execute(&batch).await.map_err(|error| {
            let culprit = error.operation_index();
            let other = |index: OperationIndex| Some(index.get()) == culprit;
            match others.iter().position(|&index| other(index)) {
                Some(at) if error.is_not_found() => Refused::NoDocument(at),
                None if error.is_not_found() && culprit.is_some() => RosterError::Removed.into(),
                _ if error.is_precondition_failed() => Refused::OwnChanged,
                _ => error.into(),
            }
        })?;
        self.own = outcome.etag(own).cloned();
        let listed = as_listed(outcome.document::<D>(roster)?)?;
        if !listed.contains(&self.config.member) {
            return Err(RosterError::Removed.into());
        }
        let mut sightings = Vec::with_capacity(others.len());
        for (name, index) in watched.iter().zip(others) {
            match outcome.document::<D>(index) {
                Ok(seen) => sightings.extend(seen.and_then(|seen| sighting(name, seen))),
                // The member cannot write it either. It will be removed, and rejoins if it is
                // alive.
                Err(error) => {
                    tracing::warn!(member = name, %error, "a member's document cannot be read");
                    sightings.extend(outcome.etag(index).map(|etag| Sighting {
                        name: name.clone(),
                        incarnation: None,
                        etag: etag.clone(),
                        period: self.config.period(),
                    }));
                }
            }
        }
        Ok(Beat {
            listed,
            sightings,
            missing: Vec::new(),
        })
    }

    /// Removes failed members from the roster, unless one of them has sent a heartbeat since, or
    /// another member was faster. Returns the remaining members.
    pub(super) async fn remove(
        &self,
        listed: &Listed,
        failed: &[Sighting],
        missing: &[String],
    ) -> Result<Option<Listed>, RosterError> {
        let mut batch = self.batch();
        for sighting in failed {
            let key = self.key(&document_name(&sighting.name));
            batch.add(key.delete().if_match(&sighting.etag))?;
        }
        let mut listed = listed.clone();
        listed.members.retain(|name| {
            !missing.contains(name) && !failed.iter().any(|sighting| sighting.name == *name)
        });
        let roster = self.write_roster(&mut batch, &listed)?;
        match self.container.execute(&batch).await {
            Ok(outcome) => {
                listed.etag = outcome.etag(roster).cloned();
                Ok(Some(listed))
            }
            Err(error) if is_lost_race(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes this process from the roster, unless another process has taken its name.
    pub(super) async fn leave(&mut self) -> Result<(), RosterError> {
        let mut tries = 0;
        loop {
            let found = self.find(&self.own_name()).await?;
            let Some(own) = found.filter(|own| self.is_ours(own)) else {
                return Ok(());
            };
            let mut listed = self.listed().await?;
            listed.members.retain(|name| *name != self.config.member);
            let mut batch = self.batch();
            batch.add(self.key(&self.own_name()).delete().if_match(&own.etag))?;
            self.write_roster(&mut batch, &listed)?;
            match self.container.execute(&batch).await {
                Ok(_) => return Ok(()),
                Err(error) if tries < TRIES && (is_lost_race(&error) || error.is_ambiguous()) => {}
                Err(error) => return Err(error.into()),
            }
            self.pause(tries).await;
            tries += 1;
        }
    }

    /// The version of the member's own document, if it still belongs to this process.
    async fn find_own(&self) -> Result<ETag, RosterError> {
        match self.find(&self.own_name()).await? {
            Some(own) if self.is_ours(&own) => Ok(own.etag),
            Some(_) => Err(RosterError::Replaced),
            None => Err(RosterError::Removed),
        }
    }

    async fn find(&self, name: &str) -> Result<Option<Stored<MemberRecord>>, RosterError> {
        let (partition, key) = (self.partition(), self.key(name));
        // A read after a lost answer must show the write of that request.
        let now = self.container.latest_committed();
        let found = now.read(key.in_partition(&partition)).await?;
        Ok(found.map(|stored| stored.map(D::into_record)))
    }

    async fn listed(&self) -> Result<Listed, RosterError> {
        let (partition, key) = (self.partition(), self.key(ROSTER));
        let now = self.container.latest_committed();
        as_listed(now.read(key.in_partition(&partition)).await?)
    }

    fn is_ours(&self, own: &Stored<MemberRecord>) -> bool {
        matches!(&own.document, MemberRecord::Heartbeat { incarnation, .. } if *incarnation == self.incarnation)
    }

    fn own_name(&self) -> String {
        document_name(&self.config.member)
    }

    fn document(&self, name: &str, record: MemberRecord) -> D {
        D::new(&self.config.group, name, record)
    }

    fn heartbeat(&self) -> D {
        let period = self.config.period().as_millis();
        let record = MemberRecord::Heartbeat {
            incarnation: self.incarnation.clone(),
            period_ms: u64::try_from(period).unwrap_or(u64::MAX),
            at: self.container.now(),
        };
        self.document(&self.own_name(), record)
    }

    fn write_roster(
        &self,
        batch: &mut Batch<C>,
        listed: &Listed,
    ) -> Result<OperationIndex, BatchError> {
        let members = listed.members.clone();
        let roster = self.document(ROSTER, MemberRecord::roster(members));
        match &listed.etag {
            Some(etag) => batch.add(roster.replace().if_match(etag)),
            None => batch.add(roster.create()),
        }
    }

    fn key(&self, name: &str) -> D::Key {
        self.document(name, MemberRecord::roster(Vec::new())).key()
    }

    fn partition(&self) -> PartitionKey {
        let roster = self.document(ROSTER, MemberRecord::roster(Vec::new()));
        Document::partition_key(&roster)
    }

    fn batch(&self) -> Batch<C> {
        Batch::new(self.partition())
    }

    /// Waits for a random time, so that members that start together do not collide again.
    async fn pause(&self, tries: u32) {
        let longest = ROSTER_PAUSE * tries;
        let (own, _) = uuid::Uuid::new_v4().as_u64_pair();
        let share = u32::try_from(own % 1000).unwrap_or_default();
        tokio::time::sleep(longest * share / 1000).await;
    }
}

fn document_name(member: &str) -> String {
    format!("member.{member}")
}

/// # Errors
/// [`RosterError::NewerSchema`] when a newer release has written the roster.
fn as_listed<D: MemberDocument>(stored: Option<Stored<D>>) -> Result<Listed, RosterError> {
    let Some(stored) = stored else {
        return Ok(Listed {
            members: Vec::new(),
            etag: None,
        });
    };
    let mut members = match stored.document.into_record() {
        MemberRecord::Roster { schema_version, .. } if schema_version > SCHEMA_VERSION => {
            return Err(RosterError::NewerSchema {
                stored: schema_version,
            });
        }
        MemberRecord::Roster { members, .. } => members,
        MemberRecord::Heartbeat { .. } => Vec::new(),
    };
    members.sort_unstable();
    members.dedup();
    Ok(Listed {
        members,
        etag: Some(stored.etag),
    })
}

fn sighting<D: MemberDocument>(name: &str, stored: Stored<D>) -> Option<Sighting> {
    match stored.document.into_record() {
        MemberRecord::Heartbeat {
            incarnation,
            period_ms,
            ..
        } => Some(Sighting {
            name: name.to_owned(),
            incarnation: Some(incarnation),
            etag: stored.etag,
            period: Duration::from_millis(period_ms),
        }),
        MemberRecord::Roster { .. } => None,
    }
}
