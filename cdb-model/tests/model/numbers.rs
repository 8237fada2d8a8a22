//! Numbers that would not come back as they were sent are errors before anything is stored or queried.

use std::collections::BTreeMap;

use cdb_model::document::FieldCodec;
use cdb_model::operation::BulkBatch;
use cdb_model::query::statement::Fetch;
use cdb_model::stored::UnknownFields;
use cdb_model::value::TextInteger;
use cdb_model::{Batch, Container, Document, Patch, Query, Timestamp};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

#[derive(Document, Serialize, Deserialize, Default)]
#[document(type = "reading", id = "{number}", version = 1)]
struct Reading {
    #[document(partition_key)]
    sensor: String,
    number: u32,
    #[document(index)]
    celsius: f64,
    humidity: Option<f32>,
    note: Option<String>,
    history: Vec<Level>,
    by_room: BTreeMap<String, (u8, f64)>,
    #[document(index)]
    serial: u64,
    offset: Option<i64>,
    other: Value,
    raw: Option<Box<RawValue>>,
    at: Timestamp,
    #[document(index)]
    text: TextInteger<u64>,
    #[serde(flatten)]
    #[document(unknown)]
    newer: UnknownFields,
}

#[derive(Serialize, Deserialize)]
enum Level {
    Exact { metres: f64 },
    Rough(f64),
    Unknown,
}

#[derive(Container)]
enum Readings {
    Reading(Reading),
}

fn created(reading: &Reading) -> Result<(), String> {
    let created = Batch::<Readings>::new("").add(reading.create());
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
        (level(f64::NEG_INFINITY), "history: metres"),
        (room(f64::NAN), "by_room: hall"),
    ] {
        let error = created(&document).unwrap_err();
        let text = format!("{field}: NaN and infinity cannot be expressed as JSON");
        assert!(error.ends_with(&text), "{error}");
    }
}

#[test]
fn a_filter_or_patch_with_a_number_that_is_not_finite_is_an_error_and_not_null() {
    let query = Query::<Reading>::in_partition("s").filter(Reading::CELSIUS.eq(f64::NAN));
    let error = Fetch::<Readings>::statement(&query).unwrap_err();
    assert_eq!(error.path, "/celsius");
    let set = |celsius| Patch::new().set(Reading::CELSIUS, celsius);
    let now = Timestamp::from_millis(0);
    assert!(set(1.5).body(now).is_ok());
    assert!(set(f64::NAN).body(now).is_err());
}

/// A patch that wrote the double 0.10000000149011612 would store another number than a document.
#[test]
fn a_patch_writes_single_precision_as_a_document_does() {
    for number in [
        0.1_f32,
        1.0 / 3.0,
        16_777_216.0,
        f32::MAX,
        f32::MIN_POSITIVE,
    ] {
        let reading = Reading {
            humidity: Some(number),
            ..Reading::default()
        };
        let json = Reading::field_codec().write(&reading).unwrap();
        let stored: Value = serde_json::from_str(&json).unwrap();
        let patch = Patch::new().set(Reading::HUMIDITY, Some(number));
        let body = patch.body(Timestamp::default()).unwrap();
        let sent = serde_json::to_value(&body).unwrap();
        assert_eq!(sent["operations"][0]["value"], stored["humidity"]);
        let back: Reading = Reading::field_codec().read(&json).unwrap();
        assert_eq!(back.humidity, Some(number));
    }
}

/// Returns the JSON forms in which programs write a double.
fn forms(number: f64) -> [String; 3] {
    // 17 digits are the most that a double needs.
    [
        serde_json::to_string(&number).expect("a number"),
        format!("{number:e}"),
        format!("{number:.16e}"),
    ]
}

proptest! {
    #[test]
    fn a_number_is_found_by_the_value_that_is_read(number in any::<f64>().prop_filter("JSON", |n| n.is_finite())) {
        let reading = Reading { celsius: 1.5, ..Reading::default() };
        let json = Reading::field_codec().write(&reading).unwrap();
        for form in forms(number) {
            let stored = json.replace(r#""celsius":1.5"#, &format!(r#""celsius":{form}"#));
            let read: Reading = Reading::field_codec().read(&stored).unwrap();
            let query = Query::<Reading>::in_partition("s").filter(Reading::CELSIUS.eq(read.celsius));
            let statement = Fetch::<Readings>::statement(&query).unwrap();
            let sent = statement.parameters[1].value.to_string();
            prop_assert_eq!(sent.parse::<f64>(), Ok(number), "stored {}", form);
            let patch = Patch::new().set(Reading::SERIAL, 1).when_eq(Reading::CELSIUS, read.celsius);
            let condition = patch.body(Timestamp::default()).unwrap().condition.unwrap();
            let sent = condition.rsplit(' ').next().unwrap();
            prop_assert_eq!(sent.parse::<f64>(), Ok(number), "stored {}", form);
        }
    }
}

/// The first integer that shares its double with another one.
const ROUNDED: u64 = 1 << 53;

/// Source: concepts-limits, "Per-item limits": "Maximum length of numeric property value: IEEE754
/// double-precision 64-bit".
#[test]
fn a_document_with_an_integer_that_the_service_rounds_is_refused_with_its_place() {
    let raw = |text: String| RawValue::from_string(text).ok();
    let newer = format!(r#"{{"new":{{"deep":{ROUNDED}}}}}"#);
    let newer = serde_json::from_str(&newer).unwrap();
    let exact = Reading {
        serial: ROUNDED - 1,
        offset: Some(-9_007_199_254_740_991),
        other: json!([ROUNDED - 1, 1e300]),
        raw: raw(format!("[1e300,{}]", ROUNDED - 1)),
        at: Timestamp::from_millis(u64::MAX),
        text: TextInteger(u64::MAX),
        ..Reading::default()
    };
    assert_eq!(created(&exact), Ok(()));
    for (document, place) in [
        (
            Reading {
                serial: ROUNDED,
                ..Reading::default()
            },
            "serial",
        ),
        (
            Reading {
                offset: Some(i64::MIN),
                ..Reading::default()
            },
            "offset",
        ),
        (
            Reading {
                other: json!({ "a": [u64::MAX] }),
                ..Reading::default()
            },
            "other: a",
        ),
        (
            Reading {
                raw: raw(u64::MAX.to_string()),
                ..Reading::default()
            },
            "raw",
        ),
        (
            Reading {
                newer,
                ..Reading::default()
            },
            "new: deep",
        ),
    ] {
        let error = created(&document).unwrap_err();
        assert!(error.contains(&format!("{place}: ")), "{error}");
        assert!(
            error.contains("store it as text (`TextInteger`)"),
            "{error}"
        );
        assert!(BulkBatch::<Readings>::new().add(document.upsert()).is_err());
    }
}

#[test]
fn a_filter_or_patch_with_an_integer_that_the_service_rounds_is_an_error() {
    let now = Timestamp::from_millis(0);
    let queried = |serial: u64| {
        let query = Query::<Reading>::in_partition("s").filter(Reading::SERIAL.eq(serial));
        Fetch::<Readings>::statement(&query).is_ok()
    };
    assert!(queried(ROUNDED - 1) && !queried(ROUNDED));
    let set = |serial: u64| Patch::new().set(Reading::SERIAL, serial).body(now).is_ok();
    assert!(set(ROUNDED - 1) && !set(ROUNDED));
    let incr = |by: i64| Patch::new().incr(Reading::SERIAL, by).body(now).is_ok();
    assert!(incr(-1) && !incr(i64::MIN));
    let when = Patch::new()
        .set(Reading::SERIAL, 1)
        .when(Reading::SERIAL.eq(ROUNDED));
    assert!(when.body(now).is_err());
}

#[test]
fn an_integer_as_text_keeps_its_digits_and_reads_numbers_too() {
    let document = Reading {
        text: TextInteger(u64::MAX),
        ..Reading::default()
    };
    let codec: FieldCodec<Reading> = Reading::field_codec();
    let json = codec.write(&document).unwrap();
    assert!(json.contains(r#""text":"18446744073709551615""#), "{json}");
    assert_eq!(codec.read(&json).unwrap().text, document.text);
    let former = json.replace(r#""18446744073709551615""#, "7");
    assert_eq!(codec.read(&former).unwrap().text, TextInteger(7));
    let broken = json.replace("18446744073709551615", "-1");
    assert!(codec.read(&broken).is_err());
    let query = Query::<Reading>::in_partition("s").filter(Reading::TEXT.eq(TextInteger(7)));
    let statement = Fetch::<Readings>::statement(&query).unwrap();
    assert!(statement.parameters.iter().any(|known| known.value == "7"));
}
