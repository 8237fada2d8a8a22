//! The mark of a write, which proves after a lost answer that the write took effect.

use serde::Deserialize;
use serde_json::Value;

/// The property that contains the mark. No index has it.
pub(crate) const MARK: &str = "writeMark";

/// A random value that a marked create, upsert or replace stores with its document.
///
/// A document with the mark of a write proves that the write took effect, also after other writers
/// have patched the document. A document without it proves nothing: another writer may have replaced
/// the document since. Two writers of equal content have different marks, so neither takes the write
/// of the other for its own.
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// use cdb_model::Document as _;
/// use cdb_model::document::WriteMark;
/// use shop::Order;
///
/// let order = Order { customer_id: "ada".into(), number: 7, total_cents: 1250, remark: None };
/// let mark = WriteMark::new(0x6f1e_62a0_95d1_3c07); // 64 random bits
/// let create = order.create().marked(&mark);
/// assert_eq!(WriteMark::of(r#"{ "id": "order:7", "writeMark": "6f1e62a095d13c07" }"#), Some(mark));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteMark(String);

#[derive(Deserialize)]
struct Marked {
    #[serde(rename = "writeMark", default)]
    mark: Value,
}

impl WriteMark {
    /// Creates a mark from random bits.
    pub fn new(random: u64) -> Self {
        Self(format!("{random:016x}"))
    }

    /// Returns the mark of a stored document; `None` if it was written without a mark.
    pub fn of(json: &str) -> Option<Self> {
        let marked: Marked = serde_json::from_str(json).ok()?;
        marked.mark.as_str().map(|mark| Self(mark.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}
