//! Serializes values as JSON, and refuses numbers that would not come back as they were sent.
//!
//! `serde_json` writes NaN and infinity as `null`: a stored document could not be read again, and a
//! filter would compare with null. The service stores every number as a double: it rounds integers
//! beyond 2^53 and returns them in scientific notation, which no integer type reads
//! (azure_data_cosmos_driver, docs/BINARY_ENCODING_ROUNDTRIP_FUZZER.md 3.1, measured there on an
//! account).

use std::fmt;

use serde::ser::{self, Error as _, Serialize, Serializer};
use serde_json::Value;

use crate::limits::MAX_EXACT_INTEGER;

/// The name under which `serde_json` serializes a `RawValue`.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// Returns the JSON text of `value`.
pub(crate) fn to_string<T: Serialize>(value: &T) -> serde_json::Result<String> {
    serde_json::to_string(&Checked(value))
}

/// Returns `value` as the JSON that a document stores: a value of serde_json would convert `0.1_f32`
/// to the double 0.10000000149011612, which does not equal the stored 0.1.
pub(crate) fn to_value<T: Serialize>(value: T) -> serde_json::Result<Value> {
    serde_json::from_str(&to_string(&value)?)
}

/// A value whose numbers are checked while it is serialized. An error begins with the names of the
/// fields around the number.
struct Checked<'a, T: ?Sized>(&'a T);

impl<T: Serialize + ?Sized> Serialize for Checked<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(Checker(serializer))
    }
}

/// Passes everything on to the serializer inside, except numbers that the service changes.
struct Checker<S>(S);

fn exact<E: ser::Error>(is_exact: bool, number: impl fmt::Display) -> Result<(), E> {
    if is_exact {
        return Ok(());
    }
    Err(E::custom(format_args!(
        "{number} is beyond ±(2^53 - 1), where the service rounds integers; store it as text (`TextInteger`)"
    )))
}

fn finite<E: ser::Error>(is_finite: bool) -> Result<(), E> {
    if is_finite {
        return Ok(());
    }
    Err(E::custom("NaN and infinity cannot be expressed as JSON"))
}

fn within<E: fmt::Display + ser::Error>(name: impl fmt::Display) -> impl FnOnce(E) -> E {
    move |error| E::custom(format_args!("{name}: {error}"))
}

macro_rules! forwarded {
    ($($method:ident($($arg:ident: $ty:ty),*) $(if $check:expr)?;)*) => {$(
        #[inline]
        fn $method(self $(, $arg: $ty)*) -> Result<S::Ok, S::Error> {
            $($check?;)?
            self.0.$method($($arg),*)
        }
    )*};
}

macro_rules! compounds {
    ($($method:ident($($arg:ident: $ty:ty),*) -> $compound:ident;)*) => {$(
        #[inline]
        fn $method(self $(, $arg: $ty)*) -> Result<Self::$compound, S::Error> {
            self.0.$method($($arg),*).map(Checker)
        }
    )*};
}

impl<S: Serializer> Serializer for Checker<S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Checker<S::SerializeSeq>;
    type SerializeTuple = Checker<S::SerializeTuple>;
    type SerializeTupleStruct = Checker<S::SerializeTupleStruct>;
    type SerializeTupleVariant = Checker<S::SerializeTupleVariant>;
    type SerializeMap = Checker<S::SerializeMap>;
    type SerializeStruct = Checker<S::SerializeStruct>;
    type SerializeStructVariant = Checker<S::SerializeStructVariant>;

    forwarded! {
        serialize_bool(v: bool);
        serialize_i8(v: i8);
        serialize_i16(v: i16);
        serialize_i32(v: i32);
        serialize_i64(v: i64) if exact(v.unsigned_abs() <= MAX_EXACT_INTEGER, v);
        serialize_i128(v: i128) if exact(v.unsigned_abs() <= u128::from(MAX_EXACT_INTEGER), v);
        serialize_u8(v: u8);
        serialize_u16(v: u16);
        serialize_u32(v: u32);
        serialize_u64(v: u64) if exact(v <= MAX_EXACT_INTEGER, v);
        serialize_u128(v: u128) if exact(v <= u128::from(MAX_EXACT_INTEGER), v);
        serialize_f32(v: f32) if finite(v.is_finite());
        serialize_f64(v: f64) if finite(v.is_finite());
        serialize_char(v: char);
        serialize_str(v: &str);
        serialize_bytes(v: &[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(name: &'static str);
        serialize_unit_variant(name: &'static str, index: u32, variant: &'static str);
    }

    compounds! {
        serialize_seq(len: Option<usize>) -> SerializeSeq;
        serialize_tuple(len: usize) -> SerializeTuple;
        serialize_tuple_struct(name: &'static str, len: usize) -> SerializeTupleStruct;
        serialize_tuple_variant(name: &'static str, index: u32, variant: &'static str, len: usize) -> SerializeTupleVariant;
        serialize_map(len: Option<usize>) -> SerializeMap;
        serialize_struct(name: &'static str, len: usize) -> SerializeStruct;
        serialize_struct_variant(name: &'static str, index: u32, variant: &'static str, len: usize) -> SerializeStructVariant;
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.0.serialize_some(&Checked(value))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        self.0.serialize_newtype_struct(name, &Checked(value))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        self.0
            .serialize_newtype_variant(name, index, variant, &Checked(value))
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.0.collect_str(value)
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

macro_rules! elements {
    ($($trait:ident $method:ident;)*) => {$(
        impl<S: ser::$trait> ser::$trait for Checker<S> {
            type Ok = S::Ok;
            type Error = S::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
                self.0.$method(&Checked(value))
            }

            fn end(self) -> Result<S::Ok, S::Error> {
                self.0.end()
            }
        }
    )*};
}

elements! {
    SerializeSeq serialize_element;
    SerializeTuple serialize_element;
    SerializeTupleStruct serialize_field;
    SerializeTupleVariant serialize_field;
}

macro_rules! fields {
    ($($trait:ident)*) => {$(
        impl<S: ser::$trait> ser::$trait for Checker<S> {
            type Ok = S::Ok;
            type Error = S::Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), S::Error> {
                if name == RAW_VALUE {
                    check_raw(value).map_err(S::Error::custom)?;
                    return self.0.serialize_field(name, value);
                }
                self.0.serialize_field(name, &Checked(value)).map_err(within(name))
            }

            fn end(self) -> Result<S::Ok, S::Error> {
                self.0.end()
            }
        }
    )*};
}

fields! { SerializeStruct SerializeStructVariant }

/// Checks the numbers of JSON that is stored as it is.
fn check_raw<T: Serialize + ?Sized>(text: &T) -> serde_json::Result<()> {
    let text: String = serde_json::from_value(serde_json::to_value(text)?)?;
    let value: Value = serde_json::from_str(&text)?;
    to_value(value).map(drop)
}

impl<S: ser::SerializeMap> ser::SerializeMap for Checker<S> {
    type Ok = S::Ok;
    type Error = S::Error;

    /// Passes the key on: `serde_json` itself refuses a key that is not finite, and writes integers
    /// as text.
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), S::Error> {
        self.0.serialize_key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
        self.0.serialize_value(&Checked(value))
    }

    fn serialize_entry<K: Serialize + ?Sized, V: Serialize + ?Sized>(
        &mut self,
        key: &K,
        value: &V,
    ) -> Result<(), S::Error> {
        let added = self.0.serialize_entry(key, &Checked(value));
        added.map_err(|error| match serde_json::to_value(key) {
            Ok(Value::String(name)) => within(name)(error),
            _ => error,
        })
    }

    fn end(self) -> Result<S::Ok, S::Error> {
        self.0.end()
    }
}
