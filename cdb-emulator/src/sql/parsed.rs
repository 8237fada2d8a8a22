//! Queries that were parsed before. Clients send the same texts with other parameters.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::ast::Select;
use super::parse;
use crate::protocol::ServiceError;

/// The most queries that are kept.
const MOST: usize = 256;

/// Queries by their text.
#[derive(Debug, Default)]
pub(crate) struct ParsedQueries(Mutex<HashMap<String, Arc<Select>>>);

impl ParsedQueries {
    /// Parses a query, or returns the tree that an earlier request has parsed.
    pub(crate) fn parse(&self, text: &str) -> Result<Arc<Select>, ServiceError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(select) = known.get(text) {
            return Ok(select.clone());
        }
        let select = Arc::new(parse(text)?);
        if known.len() == MOST {
            known.clear();
        }
        known.insert(text.to_owned(), select.clone());
        Ok(select)
    }
}
