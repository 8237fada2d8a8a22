//! The trait that `#[derive(SearchAttributes)]` implements, and the types of attributes.

use cdb_model::Timestamp;
use duroxide::OrchestrationContext;

use super::stored::{Attributes, AttributesError, KEY, Values, from_text, to_text};
use crate::stored::documents::{AttributeValue, Instance};

/// The search attributes of an orchestration, as a struct with one field per attribute. Derive it:
///
/// ```
/// use cdb_provider::model::Timestamp;
/// use cdb_provider::{CosmosDBProvider, SearchAttributes};
/// use duroxide::OrchestrationContext;
///
/// #[derive(SearchAttributes)]
/// struct OrderSearch {
///     customer: String,
///     total: f64,
///     paid: bool,
///     due: Option<Timestamp>,
/// }
///
/// async fn order(ctx: OrchestrationContext, customer: String) -> Result<String, String> {
///     OrderSearch { customer, total: 120.5, paid: false, due: None }.set(&ctx)?;
///     ctx.schedule_activity("Charge", "").await
/// }
///
/// async fn unpaid(provider: &CosmosDBProvider) -> cdb_provider::client::Result<Vec<String>> {
///     let wanted = OrderSearch::CUSTOMER.eq("ada") & OrderSearch::PAID.eq(false);
///     let page = provider.instances_where(wanted).order_by(OrderSearch::TOTAL.desc()).page(20, None).await?;
///     Ok(page.rows.into_iter().map(|found| found.instance_id).collect())
/// }
/// ```
///
/// The derive makes a constant of each field, with which filters and sorts are built. At most 16
/// fields; each a `String`, `bool`, number, [`Timestamp`], or an `Option` of one. `None` is not
/// stored: find such instances by `!OrderSearch::DUE.is_defined()`.
pub trait SearchAttributes: Sized {
    #[doc(hidden)]
    fn to_values(&self) -> Values;

    #[doc(hidden)]
    fn from_values(values: &Attributes) -> Result<Self, AttributesError>;

    /// Sets the attributes of the instance, in place of earlier ones. They are found after the
    /// commit of the turn, and remain when the orchestration ends or continues as new. Each call
    /// is one event of the history.
    ///
    /// # Errors
    /// Fails when a string has more than 256 bytes, all attributes have more than 4 KiB as JSON,
    /// or a number is not finite or an integer beyond ±(2^53 - 1). Earlier attributes then remain.
    fn set(&self, context: &OrchestrationContext) -> Result<(), AttributesError> {
        context.set_kv_value(KEY, to_text(self.to_values())?);
        Ok(())
    }

    /// Returns the attributes that the orchestration has set; `None` before it sets any.
    ///
    /// # Errors
    /// Fails when the stored attributes do not match this struct.
    fn get(context: &OrchestrationContext) -> Result<Option<Self>, AttributesError> {
        let text = context.get_kv_value(KEY);
        let read = |text: String| Self::from_values(&from_text(&text)?);
        text.map(read).transpose()
    }

    /// Reads the attributes of a found instance.
    ///
    /// # Errors
    /// Fails when the stored attributes do not match this struct: the instance has others, or none.
    fn of(instance: &Instance) -> Result<Self, AttributesError> {
        Self::from_values(&instance.attributes)
    }
}

/// The type of a search attribute.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a search attribute",
    label = "this field is an attribute",
    note = "use `String`, `bool`, an integer of at most 64 bits, `f64`, `Timestamp`, or an `Option` of one"
)]
pub trait Attribute: Sized {
    /// Returns the value; `None` for an absent one, NaN for a number that the service cannot store.
    #[doc(hidden)]
    fn to_value(&self) -> Option<AttributeValue>;

    /// Converts the stored value; `None` if it has another type.
    #[doc(hidden)]
    fn from_value(value: Option<&AttributeValue>) -> Option<Self>;
}

macro_rules! plain {
    ($($ty:ty: $variant:ident),*) => {$(
        impl Attribute for $ty {
            fn to_value(&self) -> Option<AttributeValue> {
                Some(AttributeValue::$variant(Self::clone(self)))
            }

            fn from_value(value: Option<&AttributeValue>) -> Option<Self> {
                match value? {
                    AttributeValue::$variant(value) => Some(Self::clone(value)),
                    _ => None,
                }
            }
        }
    )*};
}

plain! { String: String, bool: Bool, f64: Number }

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl Attribute for $ty {
            fn to_value(&self) -> Option<AttributeValue> {
                let value = AttributeValue::integer((*self).into());
                Some(value.unwrap_or(AttributeValue::Number(f64::NAN)))
            }

            fn from_value(value: Option<&AttributeValue>) -> Option<Self> {
                value?.as_integer()?.try_into().ok()
            }
        }
    )*};
}

integers! { u8 u16 u32 u64 i8 i16 i32 i64 }

impl Attribute for Timestamp {
    fn to_value(&self) -> Option<AttributeValue> {
        self.as_millis().to_value()
    }

    fn from_value(value: Option<&AttributeValue>) -> Option<Self> {
        u64::from_value(value).map(Self::from_millis)
    }
}

impl<T: Attribute> Attribute for Option<T> {
    fn to_value(&self) -> Option<AttributeValue> {
        self.as_ref().and_then(T::to_value)
    }

    fn from_value(value: Option<&AttributeValue>) -> Option<Self> {
        match value {
            None => Some(None),
            Some(value) => T::from_value(Some(value)).map(Some),
        }
    }
}

/// The conversions of a field. Generated code names the type's bound once, so a wrong type is one
/// error.
#[derive(Debug)]
pub struct Codec<T> {
    /// Writes a value.
    pub write: fn(&T) -> Option<AttributeValue>,
    read: fn(Option<&AttributeValue>) -> Option<T>,
}

/// For generated code: returns the conversions of an attribute's type.
pub const fn codec<T: Attribute>() -> Codec<T> {
    Codec {
        write: T::to_value,
        read: T::from_value,
    }
}

/// For generated code: reads an attribute.
///
/// # Errors
/// Fails when the stored value has another type.
pub fn read<T>(codec: &Codec<T>, values: &Attributes, name: &str) -> Result<T, AttributesError> {
    let value = (codec.read)(values.get(name));
    value.ok_or_else(|| AttributesError::Mismatch {
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(value: &impl Attribute) -> Result<String, AttributesError> {
        to_text(vec![("a", value.to_value())])
    }

    #[test]
    fn every_type_is_read_as_it_was_set() {
        fn check<T: Attribute + PartialEq + std::fmt::Debug>(value: T, text: &str) {
            let stored = set(&value).unwrap();
            assert_eq!(stored, text);
            let values = from_text(&stored).unwrap();
            assert_eq!(read(&codec::<T>(), &values, "a"), Ok(value));
        }
        check("ada".to_owned(), r#"{"a":"ada"}"#);
        check(true, r#"{"a":true}"#);
        check(0.1_f64, r#"{"a":0.1}"#);
        check(1e300, r#"{"a":1e+300}"#);
        check(2.0_f64, r#"{"a":2}"#);
        check(-7_i8, r#"{"a":-7}"#);
        check(Timestamp::from_millis(1), r#"{"a":1}"#);
        check(Some(3_u64), r#"{"a":3}"#);
        check(None::<String>, "{}");
    }

    #[test]
    fn limits_are_refused_when_set() {
        let refused =
            |value: &dyn Fn() -> Result<String, AttributesError>| value().unwrap_err().to_string();
        assert!(set(&"x".repeat(256)).is_ok());
        assert_eq!(
            refused(&|| set(&"ä".repeat(129))),
            "search attribute `a` has 258 bytes; shorten the string to 256 bytes"
        );
        let number = "search attribute `a` is not a finite number, or is an integer beyond ±(2^53 - 1); use a string";
        let most = (1_i64 << 53) - 1;
        assert!(set(&most).is_ok() && set(&-most).is_ok() && set(&1e300).is_ok());
        assert_eq!(refused(&|| set(&(most + 1))), number);
        assert_eq!(refused(&|| set(&f64::NAN)), number);
        assert_eq!(refused(&|| set(&Some(f64::INFINITY))), number);
        assert_eq!(refused(&|| set(&u64::MAX)), number);
        assert_eq!(refused(&|| set(&i64::MIN)), number);
        // Quotation marks take two bytes as JSON.
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let values = names
            .map(|name| (name, "\"".repeat(256).to_value()))
            .to_vec();
        assert_eq!(
            to_text(values).unwrap_err().to_string(),
            "the search attributes have 4153 bytes as JSON; shorten them to 4096 bytes"
        );
    }

    #[test]
    fn a_stored_value_of_another_type_is_refused() {
        let values = from_text(r#"{"a":"x"}"#).unwrap();
        let refused = read(&codec::<u64>(), &values, "a").unwrap_err();
        assert!(matches!(refused, AttributesError::Mismatch { .. }));
        assert!(read(&codec::<String>(), &values, "b").is_err());
    }
}
