//! Which types can be ids, partition keys, filters and sorts: the table of the book, and the order of
//! the texts that `SortableText` stores.

use std::fmt::Write as _;
use std::net::IpAddr;

use cdb_model::Scalar;
use cdb_model::Timestamp;
use cdb_model::value::TextInteger;
use cdb_model::value::{IdPart, Ordered, PartitionKeyPart, SortableForm, SortableText};
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use expect_test::expect_file;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

#[derive(Scalar, Serialize, Deserialize)]
enum State {
    Open,
}

#[derive(Scalar, Serialize, Deserialize)]
struct Sku(u32);

#[derive(Scalar, Serialize, Deserialize)]
struct Serial(TextInteger<u64>);

struct Address;

/// Tells whether a type has a trait.
macro_rules! has {
    ($ty:ty: $trait:ident) => {{
        struct Probe<T>(std::marker::PhantomData<T>);
        trait Lacking {
            const HAS: bool = false;
        }
        impl<T> Lacking for Probe<T> {}
        impl<T: $trait> Probe<T> {
            const HAS: bool = true;
        }
        // Both are used, whatever the answer is.
        assert!(Probe::<String>::HAS && !<Probe<String> as Lacking>::HAS);
        Probe::<$ty>::HAS
    }};
}

macro_rules! rows {
    ($($name:literal: $ty:ty => $stored:literal;)*) => {
        [$((
            $name,
            [has!($ty: IdPart), has!($ty: PartitionKeyPart), has!($ty: Scalar), has!($ty: Ordered)],
            $stored,
        )),*]
    };
}

#[test]
fn the_table_of_types_is_that_of_the_book() {
    let rows = rows! {
        "`String`": String => "text";
        "`bool`": bool => "boolean";
        "integers up to 32 bits": u32 => "number";
        "`u64`, `i64`": u64 => "number; beyond 2^53 refused";
        "`f64`": f64 => "number";
        "`f32`": f32 => "number; to filter or sort by it, use `f64`";
        "`Timestamp`": Timestamp => "number of milliseconds";
        "`TextInteger`": TextInteger<u64> => "digits";
        "`SortableText` of `u64`, `i64`": SortableText<i64> => "digits of fixed width";
        "`IpAddr`": IpAddr => "text";
        "an enum with `#[derive(Scalar)]`": State => "name of the variant";
        "a newtype with `#[derive(Scalar)]`, around `u32`": Sku => "its content";
        "the same around a `TextInteger`": Serial => "its content";
        "another struct, a map": Address => "object; use `index(city: String)`";
        "`Vec`, a set": Vec<String> => "array; use `contains`";
        "`uuid::Uuid`": Uuid => "text";
        "`chrono`: `DateTime<Utc>`, `NaiveDate`": DateTime<Utc> => "text, with or without a fraction";
        "`SortableText` of these": SortableText<NaiveDate> => "text of fixed width";
        "`time`: `OffsetDateTime`, `Date`": OffsetDateTime => "array";
        "`SortableText` of these ": SortableText<OffsetDateTime> => "text of fixed width, in UTC";
        "`jiff`: `Timestamp`, `civil::Date`": jiff::Timestamp => "text, with or without a fraction";
        "`SortableText` of these  ": SortableText<jiff::Timestamp> => "text of fixed width";
        "`rust_decimal::Decimal`": Decimal => "text, also with zeros at the end";
        "`SortableText<Decimal>`": SortableText<Decimal> => "text of fixed width";
    };
    let mut table = "| type | in an id | partition key | `eq` | `lt`, sort | stored as |\n|---|---|---|---|---|---|\n".to_owned();
    for (name, traits, stored) in rows {
        let traits = traits.map(|has| if has { "yes" } else { "–" });
        let traits = traits.join(" | ");
        writeln!(table, "| {} | {traits} | {stored} |", name.trim_end()).unwrap();
    }
    expect_file!["../docs/types.md"].assert_eq(&table);
}

/// Checks ascending values.
fn check<T: SortableForm + PartialEq + std::fmt::Debug>(values: &[T]) {
    let texts: Vec<_> = values.iter().map(T::to_sortable).collect();
    assert!(texts.is_sorted_by(|a, b| a < b), "{texts:#?}");
    for (value, text) in values.iter().zip(&texts) {
        assert_eq!(T::from_sortable(text).as_ref(), Some(value), "{text}");
    }
}

#[test]
fn decimals_are_stored_in_their_order() {
    let decimals = [
        "-79228162514264337593543950335",
        "-100",
        "-9.51",
        "-9.5",
        "-0.0000000000000000000000000001",
        "0",
        "0.0000000000000000000000000001",
        "9.5",
        "9.51",
        "50",
        "100",
        "7.9228162514264337593543950335e28",
    ];
    let decimals = decimals.map(|text| {
        text.parse()
            .or_else(|_| Decimal::from_scientific(text))
            .unwrap()
    });
    check(&decimals);
    let text = |text: &str| text.parse::<Decimal>().unwrap().to_sortable();
    assert_eq!(text("100.00"), text("100"));
    assert_eq!(text("-0.00"), text("0"));
    assert_eq!(
        text("9.50"),
        "00000000000000000000000000009.5000000000000000000000000000"
    );
}

#[test]
fn times_are_stored_in_their_order() {
    let eight = DateTime::from_timestamp(1_718_784_000, 0).unwrap();
    check(&[
        DateTime::<Utc>::MIN_UTC,
        DateTime::from_timestamp(-62_200_000_000, 0).unwrap(),
        DateTime::from_timestamp(-1, 999_999_999).unwrap(),
        eight,
        eight + TimeDelta::milliseconds(500),
        eight + TimeDelta::seconds(1),
        DateTime::<Utc>::MAX_UTC,
    ]);
    assert_eq!(eight.to_sortable(), "2024-06-19T08:00:00.000000000Z");
    check(&[NaiveDate::MIN, NaiveDate::default(), NaiveDate::MAX]);
    // A leap second is before the next minute.
    let leap: DateTime<Utc> = "2016-12-31T23:59:60.5Z".parse().unwrap();
    check(&[
        leap - TimeDelta::seconds(1),
        leap,
        leap + TimeDelta::seconds(1),
    ]);

    let eight = OffsetDateTime::from_unix_timestamp(1_718_784_000).unwrap();
    let elsewhere = eight.to_offset(time::UtcOffset::from_hms(2, 0, 0).unwrap());
    assert_eq!(elsewhere.to_sortable(), eight.to_sortable());
    check(&[
        OffsetDateTime::UNIX_EPOCH,
        eight,
        eight + time::Duration::milliseconds(500),
    ]);
    check(&[time::Date::MIN, time::Date::MAX]);

    let eight = jiff::Timestamp::from_second(1_718_784_000).unwrap();
    let half = eight + jiff::SignedDuration::from_millis(500);
    check(&[jiff::Timestamp::MIN, eight, half, jiff::Timestamp::MAX]);
    check(&[jiff::civil::Date::MIN, jiff::civil::Date::MAX]);
}

#[test]
fn a_text_with_another_form_is_refused() {
    for text in [
        "\"2024-06-19T08:00:00Z\"",
        "\"2024-06-19T08:00:00.5Z\"",
        "\"2024-06-31T08:00:00.000000000Z\"",
        "\"\"",
        "\"é\"",
    ] {
        assert!(
            serde_json::from_str::<SortableText<DateTime<Utc>>>(text).is_err(),
            "{text}"
        );
        assert!(
            serde_json::from_str::<SortableText<jiff::Timestamp>>(text).is_err(),
            "{text}"
        );
        assert!(
            serde_json::from_str::<SortableText<OffsetDateTime>>(text).is_err(),
            "{text}"
        );
        assert!(
            serde_json::from_str::<SortableText<NaiveDate>>(text).is_err(),
            "{text}"
        );
        assert!(
            serde_json::from_str::<SortableText<Decimal>>(text).is_err(),
            "{text}"
        );
    }
    assert!(serde_json::from_str::<SortableText<Decimal>>("\"9.5\"").is_err());
    let id = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    assert_eq!(Uuid::from_id_part(id).unwrap().to_id_part(), id);
}
