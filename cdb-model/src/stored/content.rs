//! Compares documents by their stored content.

use serde_json::Value;

use crate::document::Document;

/// Whether two documents have the same content, apart from the times that every write sets. They
/// are compared as JSON, because a document type need not implement `PartialEq`.
pub fn is_same<D: Document>(found: &D, wanted: &D) -> bool {
    match (fields(found), fields(wanted)) {
        (Ok(found), Ok(wanted)) => found == wanted,
        _ => false,
    }
}

fn fields<D: Document>(document: &D) -> serde_json::Result<Value> {
    let mut fields = serde_json::from_str(&D::field_codec().write(document)?)?;
    let times = D::SHAPE.created_at.into_iter().chain(D::SHAPE.updated_at);
    if let Value::Object(fields) = &mut fields {
        for path in times {
            fields.remove(path.trim_start_matches('/'));
        }
    }
    Ok(fields)
}
