//! A scalar is stored as one string, number or boolean.

#![allow(unreachable_patterns, reason = "serde's own warnings differ between compilers")]

include!("../imports.rs");

#[derive(Scalar, Serialize, Deserialize)]
enum Shape {
    Round,
    // Both are stored as objects.
    Square(u32),
    Oblong { width: u32 },
}

#[derive(Scalar, Serialize, Deserialize)]
struct Point(f64, f64);

#[derive(Scalar, Serialize, Deserialize)]
struct Named {
    number: u32,
}

#[derive(Scalar, Serialize, Deserialize)]
struct Generic<T>(T);

// Equal values can be written in different forms.
#[derive(Scalar, Serialize, Deserialize)]
struct Other(#[serde(with = "other")] u32);

#[derive(Scalar, Serialize, Deserialize)]
#[serde(tag = "kind")]
enum Tagged {
    Round,
}

// A value is found by one form, and written as it was read.
#[derive(Scalar, Serialize, Deserialize)]
#[serde(rename_all(serialize = "lowercase", deserialize = "UPPERCASE"))]
enum Forms {
    #[serde(alias = "circle")]
    Round,
    #[serde(skip_serializing)]
    OnlyRead,
    #[serde(skip_deserializing)]
    OnlyWritten,
    #[serde(other)]
    Unknown,
}

#[derive(Scalar, Serialize, Deserialize)]
#[scalar(ordered)]
enum Settings {
    Round,
}

// One of two values with the same stored form is read as the other.
#[derive(Scalar, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Twins {
    InWork,
    #[serde(rename = "in_work")]
    Running,
    // Neither written nor read.
    #[serde(skip, rename = "in_work")]
    Former,
    Done,
    #[serde(rename = "done")]
    Finished,
}

fn main() {}
