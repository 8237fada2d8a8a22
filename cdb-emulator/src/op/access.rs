//! The access of a data request to physical partitions: it checks the session token, admits and
//! charges the request by the throughput budget, and adds the new session token to the response.

use crate::error::ServiceError;
use crate::request::Request;
use crate::response::Response;
use crate::service::Service;
use crate::session;
use crate::store::ranges::PhysicalRange;
use crate::store::version::last_lsn;
use crate::store::{Connection, Container};
use crate::throughput::Ticket;

/// An admitted request to physical partitions of a container.
#[derive(Debug)]
pub(super) struct Access<'a> {
    service: &'a Service,
    ranges: Vec<&'a PhysicalRange>,
    ticket: Ticket,
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
        session::check(
            &request.headers,
            ranges.iter().copied(),
            last_lsn(connection)?,
        )?;
        Self::begin(service, connection, container, ranges)
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

    /// Charges the request and adds the session token to the response.
    pub(super) fn end(self, response: Response, lsn: i64) -> Response {
        self.charge(response.charge);
        response.with("x-ms-session-token", session::token(self.ranges, lsn))
    }

    /// Like [`end`](Self::end) for an error. The session token includes the write that caused a
    /// conflict.
    pub(super) fn refused(self, error: &ServiceError, lsn: i64) -> Response {
        self.end(Response::error(error), lsn)
    }
}
