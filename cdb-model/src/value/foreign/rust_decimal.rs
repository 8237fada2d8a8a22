//! `Decimal`: its own form keeps zeros at the end, so 9.5 and 9.50 are equal and stored differently.

use rust_decimal::Decimal;

use crate::value::sortable_text::{SortableForm, signed, unsigned};

/// The most digits before the decimal point, those of 2^96, and after it.
const WHOLE: usize = 29;
const FRACTION: usize = 28;

impl SortableForm for Decimal {
    fn to_sortable(&self) -> String {
        let number = self.normalize();
        let text = number.abs().to_string();
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let digits = format!("{whole:0>WHOLE$}.{fraction:0<FRACTION$}");
        signed(number.is_sign_negative() && !number.is_zero(), &digits)
    }

    fn from_sortable(text: &str) -> Option<Self> {
        let (is_negative, digits) = unsigned(text);
        // More digits than a decimal has are refused, so that none are rounded.
        let digits = digits.trim_start_matches('0').trim_end_matches('0');
        let digits = format!("0{}", digits.trim_end_matches('.'));
        let mut number = Self::from_str_exact(&digits).ok()?;
        number.set_sign_negative(is_negative);
        Some(number)
    }
}
