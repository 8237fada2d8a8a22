//! The fields `created_at` and `updated_at`, which every write sets.
//!
//! A write of one document knows its time when the document is encoded. The operations of a batch
//! get their time when the batch is sent, so that all have the same. Until then, their JSON has room
//! for it: numbers of a fixed width.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::shape::DocumentShape;
use crate::value::Timestamp;

/// The width of a time in JSON. Shorter numbers are preceded by spaces.
const WIDTH: usize = 13;

/// The largest number of that width, in the year 2286. Stands for a time that is not known yet.
pub(crate) const LATER: Timestamp = Timestamp::from_millis(9_999_999_999_999);

/// Where the time of the write belongs in an operation.
#[derive(Clone, Debug, Default)]
pub(crate) enum TimeSlots {
    /// Nowhere.
    #[default]
    None,
    /// In the JSON of a document, at these distances from its end in bytes.
    FromEnd(Vec<usize>),
    /// In the last change of a patch.
    LastChange,
}

impl TimeSlots {
    /// Returns the slot of a patch.
    pub(crate) fn of_patch(shape: &DocumentShape) -> Self {
        shape.updated_at.map_or(Self::None, |_| Self::LastChange)
    }

    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Returns the JSON of a document with another time; `None` if the document has no times.
    pub(crate) fn replaced(&self, json: &RawValue, now: Timestamp) -> Option<Box<RawValue>> {
        let Self::FromEnd(slots) = self else {
            return None;
        };
        let mut json = json.get().to_owned();
        let time = fixed_width(now);
        for distance in slots {
            let start = json.len().checked_sub(*distance)?;
            json.replace_range(start..start + WIDTH, &time);
        }
        RawValue::from_string(json).ok()
    }
}

fn fixed_width(time: Timestamp) -> String {
    format!("{:>WIDTH$}", time.min(LATER).as_millis())
}

/// Adds to the fields of a document the time of the write: as the time of creation unless the
/// document has one, and as the time of the last write.
pub(crate) fn with_times(
    shape: &DocumentShape,
    fields: String,
    now: Timestamp,
) -> serde_json::Result<(String, TimeSlots)> {
    if shape.created_at.or(shape.updated_at).is_none() {
        return Ok((fields, TimeSlots::None));
    }
    let mut members: Map<String, Value> = serde_json::from_str(&fields)?;
    let created = shape.created_at.map(property);
    let created = created.filter(|name| members.get(*name).is_none_or(Value::is_null));
    let names: Vec<&str> = created
        .into_iter()
        .chain(shape.updated_at.map(property))
        .collect();
    for name in &names {
        members.remove(*name);
    }
    let mut json = serde_json::to_string(&members)?;
    json.pop();
    let mut ends = Vec::with_capacity(names.len());
    for name in names {
        if json.len() > 1 {
            json.push(',');
        }
        json.push_str(&serde_json::to_string(name)?);
        json.push(':');
        json.push_str(&fixed_width(now));
        ends.push(json.len());
    }
    json.push('}');
    let from_end = ends.iter().map(|end| json.len() - end + WIDTH).collect();
    Ok((json, TimeSlots::FromEnd(from_end)))
}

fn property(path: &'static str) -> &'static str {
    path.strip_prefix('/').unwrap_or(path)
}
