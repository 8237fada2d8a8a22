//! The access of a data request to physical partitions: it checks the session token, admits and
//! charges the request by the throughput budget, and adds the new session token to the response.

use std::borrow::Cow;

use crate::account::{RequestClass, Service, Ticket, View, session};
use crate::protocol::{Request, Response, ServiceError};
use crate::store::version::last_lsn;
use crate::store::{Connection, Container, PhysicalRange};

/// An admitted request to physical partitions of a container.
#[derive(Debug)]
pub(super) struct Access<'a> {
    service: &'a Service,
    ranges: Vec<&'a PhysicalRange>,
    ticket: Ticket,
    view: View,
    /// The LSN that a read sees.
    lsn: i64,
}

impl<'a> Access<'a> {
    /// Admits a read. Fails when its session token is ahead of the data.
    pub(super) fn read(
        service: &'a Service,
        connection: &Connection,
        request: &Request,
        container: &'a Container,
        ranges: Vec<&'a PhysicalRange>,
    ) -> Result<Self, ServiceError> {
        let (headers, last) = (&request.headers, last_lsn(connection)?);
        session::check(headers, ranges.iter().copied(), last)?;
        let view = service.replicas.view(headers, container, &ranges, last)?;
        let access = Self::begin(service, connection, request, container, ranges)?;
        Ok(Self {
            view,
            lsn: view.snapshot.unwrap_or(last),
            ..access
        })
    }

    /// Returns the LSN that a read sees.
    pub(super) fn lsn(&self) -> i64 {
        self.lsn
    }

    /// Returns the container in the state that a read sees: that of a lagging replica or the newest.
    pub(super) fn view<'c>(&self, container: &'c Container) -> Cow<'c, Container> {
        match self.view.snapshot {
            Some(lsn) => Cow::Owned(container.at(lsn)),
            None => Cow::Borrowed(container),
        }
    }

    /// Admits a write. Only the form of its session token is checked.
    pub(super) fn write(
        service: &'a Service,
        connection: &Connection,
        request: &Request,
        container: &'a Container,
        ranges: Vec<&'a PhysicalRange>,
    ) -> Result<Self, ServiceError> {
        session::check_form(&request.headers)?;
        Self::begin(service, connection, request, container, ranges)
    }

    fn begin(
        service: &'a Service,
        connection: &Connection,
        request: &Request,
        container: &'a Container,
        ranges: Vec<&'a PhysicalRange>,
    ) -> Result<Self, ServiceError> {
        let (reached, class) = (ranges.iter().copied(), RequestClass::of(&request.headers)?);
        let budget = &service.throughput;
        let ticket = budget.admit(connection, container, reached, class)?;
        Ok(Self {
            service,
            ranges,
            ticket,
            view: View::default(),
            lsn: 0,
        })
    }

    /// Charges the request.
    pub(super) fn charge(&self, units: f64) {
        self.service.throughput.charge(&self.ticket, units);
    }

    /// Charges the request and adds the session token to the response.
    pub(super) fn end(self, mut response: Response, lsn: i64) -> Response {
        if self.view.is_quorum {
            // Two replicas answer.
            response.charge *= 2.0;
        }
        self.charge(response.charge);
        // Errors have these headers too (Rust SDK, emulator_tests/cosmos_response_metadata.rs).
        if let [range] = &*self.ranges {
            response = response.with("x-ms-documentdb-partitionkeyrangeid", &*range.id);
        }
        response
            .with("lsn", lsn.to_string())
            .with("x-ms-session-token", session::token(self.ranges, lsn))
    }

    /// Like [`end`](Self::end) for an error. The session token includes the write that caused a
    /// conflict.
    pub(super) fn refused(self, error: &ServiceError, lsn: i64) -> Response {
        self.end(Response::error(error), lsn)
    }
}
