//! Numbers that JSON cannot express are errors before anything is stored or queried.

use std::collections::BTreeMap;

use cdb_model::{Batch, Container, Document, Fetch, Patch, Query};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize, Default)]
#[document(type = "reading", id = "{number}")]
struct Reading {
    #[document(partition_key)]
    sensor: String,
    number: u32,
    #[document(index)]
    celsius: f64,
    #[document(index)]
    humidity: Option<f32>,
    note: Option<String>,
    history: Vec<Level>,
    by_room: BTreeMap<String, (u8, f64)>,
}

#[derive(Serialize, Deserialize)]
enum Level {
    Exact { metres: f64 },
    Rough(f64),
    Unknown,
}

#[derive(Container)]
#[container(partition_key = "/sensor")]
enum Readings {
    Reading(Reading),
}

fn created(reading: &Reading) -> Result<(), String> {
    let created = Batch::<Readings>::new("").create(reading);
    created.map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_document_with_a_number_that_is_not_finite_is_refused() {
    let level = |metres| Reading {
        history: vec![Level::Unknown, Level::Rough(1.0), Level::Exact { metres }],
        by_room: BTreeMap::from([("hall".to_owned(), (1, 20.5))]),
        ..Reading::default()
    };
    let room = |celsius| Reading {
        by_room: BTreeMap::from([("hall".to_owned(), (1, celsius))]),
        ..Reading::default()
    };
    let reading = |celsius, humidity| Reading {
        celsius,
        humidity,
        ..Reading::default()
    };
    assert_eq!(created(&level(2.0)), Ok(()));
    for (document, field) in [
        (reading(f64::NAN, None), "celsius"),
        (reading(0.0, Some(f32::INFINITY)), "humidity"),
        (level(f64::NEG_INFINITY), "metres"),
        (room(f64::NAN), "by_room"),
    ] {
        let error = created(&document).unwrap_err();
        let text = format!("{field} is NaN or infinite, which JSON cannot express");
        assert!(error.ends_with(&text), "{error}");
    }
}

#[test]
fn a_filter_or_patch_with_a_number_that_is_not_finite_is_an_error_and_not_null() {
    let query = Query::<Reading>::in_partition("s").filter(Reading::CELSIUS.eq(f64::NAN));
    let error = Fetch::<Readings>::statement(&query).unwrap_err();
    assert_eq!(error.path, "/celsius");
    let missing = Query::<Reading>::in_partition("s").filter(Reading::HUMIDITY.eq(None::<f32>));
    assert!(Fetch::<Readings>::statement(&missing).is_ok());
    let set = |celsius| Patch::new().set(Reading::CELSIUS, celsius);
    let now = cdb_model::Timestamp::from_millis(0);
    assert!(set(1.5).body(now).is_ok());
    assert!(set(f64::NAN).body(now).is_err());
}
