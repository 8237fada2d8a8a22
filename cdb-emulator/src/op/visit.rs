//! What every data request does at the physical partitions that it goes to: its session is compared with how far they
//! have come, their budget lets it in and is charged, and its answer says how far they are now.

use rusqlite::Connection;

use crate::error::ServiceError;
use crate::service::{Answer, Asked, Service, refusal};
use crate::session;
use crate::store::Container;
use crate::store::catalog::last_lsn;
use crate::store::ranges::PhysicalRange;
use crate::throughput::Ticket;

/// A request to some physical partitions of a container.
#[derive(Debug)]
pub(super) struct Visit<'a> {
    service: &'a Service,
    ranges: Vec<&'a PhysicalRange>,
    ticket: Ticket,
}

impl<'a> Visit<'a> {
    /// A read: it may have seen more than there is.
    pub(super) fn read(
        service: &'a Service,
        connection: &Connection,
        asked: &Asked,
        container: &'a Container,
        ranges: Vec<&'a PhysicalRange>,
    ) -> Result<Self, ServiceError> {
        session::check(
            &asked.headers,
            ranges.iter().copied(),
            last_lsn(connection)?,
        )?;
        Self::begin(service, connection, container, ranges)
    }

    /// A write: the primary decides, whatever its caller has seen.
    pub(super) fn write(
        service: &'a Service,
        connection: &Connection,
        asked: &Asked,
        container: &'a Container,
        ranges: Vec<&'a PhysicalRange>,
    ) -> Result<Self, ServiceError> {
        session::check_form(&asked.headers)?;
        Self::begin(service, connection, container, ranges)
    }

    fn begin(
        service: &'a Service,
        connection: &Connection,
        container: &'a Container,
        ranges: Vec<&'a PhysicalRange>,
    ) -> Result<Self, ServiceError> {
        let reached = ranges.iter().copied();
        let ticket = service.throughput.admit(connection, container, reached)?;
        Ok(Self {
            service,
            ranges,
            ticket,
        })
    }

    /// Charges the request.
    pub(super) fn charge(&self, units: f64) {
        self.service.throughput.charge(&self.ticket, units);
    }

    /// Charges the request and says in its answer how far the physical partitions have come.
    pub(super) fn end(self, answer: Answer, lsn: i64) -> Answer {
        self.charge(answer.charge);
        answer.with("x-ms-session-token", session::token(self.ranges, lsn))
    }

    /// As [`end`](Self::end) for a refusal: whoever lost against another writer learns how far that one has come.
    pub(super) fn refused(self, error: &ServiceError, lsn: i64) -> Answer {
        self.end(refusal(error), lsn)
    }
}
