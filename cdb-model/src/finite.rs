//! Serializes values as JSON, and refuses numbers that JSON cannot express.
//!
//! `serde_json` writes NaN and infinity as `null`: a stored document could not be read again, and a
//! filter would compare with null.

use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::{Error, Value};

/// Returns the JSON text of `value`.
pub(crate) fn to_string<T: Serialize>(value: &T) -> serde_json::Result<String> {
    let json = serde_json::to_string(value)?;
    // Without a `null` every number is finite.
    if json.contains("null") {
        value.serialize(Finite("a number"))?;
    }
    Ok(json)
}

/// Returns `value` as JSON.
pub(crate) fn to_value<T: Serialize>(value: T) -> serde_json::Result<Value> {
    value.serialize(Finite("a number"))?;
    serde_json::to_value(value)
}

/// Writes nothing, and fails at a number that is not finite. Contains the name of the innermost
/// field, for the error.
#[derive(Clone, Copy)]
struct Finite(&'static str);

impl Finite {
    fn check(self, is_finite: bool) -> Result<(), Error> {
        if is_finite {
            return Ok(());
        }
        let name = self.0;
        Err(Error::custom(format_args!(
            "{name} is NaN or infinite, which JSON cannot express"
        )))
    }
}

macro_rules! accepted {
    ($($method:ident($($ty:ty),*);)*) => {$(
        fn $method(self $(, _: $ty)*) -> Result<(), Error> {
            Ok(())
        }
    )*};
}

macro_rules! compounds {
    ($($method:ident($($ty:ty),*);)*) => {$(
        fn $method(self $(, _: $ty)*) -> Result<Self, Error> {
            Ok(self)
        }
    )*};
}

impl Serializer for Finite {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    accepted! {
        serialize_bool(bool);
        serialize_i8(i8); serialize_i16(i16); serialize_i32(i32); serialize_i64(i64); serialize_i128(i128);
        serialize_u8(u8); serialize_u16(u16); serialize_u32(u32); serialize_u64(u64); serialize_u128(u128);
        serialize_char(char); serialize_str(&str); serialize_bytes(&[u8]);
        serialize_none(); serialize_unit(); serialize_unit_struct(&'static str);
        serialize_unit_variant(&'static str, u32, &'static str);
    }

    compounds! {
        serialize_seq(Option<usize>);
        serialize_tuple(usize);
        serialize_tuple_struct(&'static str, usize);
        serialize_tuple_variant(&'static str, u32, &'static str, usize);
        serialize_map(Option<usize>);
        serialize_struct(&'static str, usize);
        serialize_struct_variant(&'static str, u32, &'static str, usize);
    }

    fn serialize_f32(self, number: f32) -> Result<(), Error> {
        self.check(number.is_finite())
    }

    fn serialize_f64(self, number: f64) -> Result<(), Error> {
        self.check(number.is_finite())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }
}

macro_rules! elements {
    ($($trait:ident $method:ident;)*) => {$(
        impl serde::ser::$trait for Finite {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                value.serialize(*self)
            }

            fn end(self) -> Result<(), Error> {
                Ok(())
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
        impl serde::ser::$trait for Finite {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                value.serialize(Self(name))
            }

            fn end(self) -> Result<(), Error> {
                Ok(())
            }
        }
    )*};
}

fields! { SerializeStruct SerializeStructVariant }

impl serde::ser::SerializeMap for Finite {
    type Ok = ();
    type Error = Error;

    /// Accepts the key: `serde_json` itself refuses a key that is not finite.
    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(*self)
    }

    fn end(self) -> Result<(), Error> {
        Ok(())
    }
}
