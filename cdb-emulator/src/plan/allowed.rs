//! Which queries the gateway and the policy allow.

use crate::protocol::ServiceError;
use crate::sql::ast::Select;
use crate::store::Policy;

/// Rejects a cross-partition query that needs a merge. The gateway does not merge, even for one
/// physical partition.
pub(crate) fn check_gateway(select: &Select) -> Result<(), ServiceError> {
    if let Some(derived) = &select.derived {
        check_gateway(derived)?;
    }
    let features = [
        (!select.order_by.is_empty(), "OrderBy"),
        (select.top.is_some(), "Top"),
        (
            select.offset.is_some() || select.limit.is_some(),
            "OffsetAndLimit",
        ),
        (select.distinct, "Distinct"),
        (select.rank, "HybridSearch"),
        (!select.group_by.is_empty(), "GroupBy"),
        (select.aggregates(), "Aggregate"),
    ];
    let found: Vec<&str> = features
        .into_iter()
        .filter_map(|(found, name)| found.then_some(name))
        .collect();
    if found.is_empty() {
        return Ok(());
    }
    Err(not_servable(&found.join(", ")))
}

/// The refusal of a query that the gateway does not run, because of these features.
pub(crate) fn not_servable(features: &str) -> ServiceError {
    let message = format!(
        "The provided cross partition query can not be directly served by the gateway. This is a first chance \
         (internal) exception that all newer clients will know how to handle gracefully. Features: {features}."
    );
    ServiceError::new(400, 1004, "BadRequest", message)
}

/// Checks that an index serves the sort: a range index for one path, a composite for several.
pub(crate) fn check_sort(select: &Select, policy: &Policy) -> Result<(), ServiceError> {
    let mut paths = Vec::new();
    if select.unindexed_sort {
        return Ok(());
    }
    for item in &select.order_by {
        let path = item
            .expr
            .path(&select.alias)
            .filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| {
            ServiceError::bad_request("Unsupported ORDER BY clause. ORDER BY item expression could not be mapped to a document path.")
        })?;
        paths.push((path, item.descending));
    }
    match &*paths {
        [] => Ok(()),
        [(path, _)] if policy.is_included(path) => Ok(()),
        [_] => Err(ServiceError::bad_request(
            "The order-by item requires a range index to be defined on the corresponding index path.",
        )),
        several if policy.has_composite(several) => Ok(()),
        _ => Err(ServiceError::bad_request(
            "The order by query does not have a corresponding composite index that it can be served from.",
        )),
    }
}

/// Returns whether a query returns its rows one by one, so that a page can end after any row.
pub(crate) fn streams(select: &Select) -> bool {
    !select.aggregates()
        && !select.distinct
        && select.group_by.is_empty()
        && select.derived.is_none()
        && !select.alias.is_empty()
        && !select.unindexed_sort
}
