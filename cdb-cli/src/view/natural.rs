//! The natural order of texts: `order-2` comes before `order-10`.

use std::cmp::Ordering;

/// Compares two texts. Runs of ASCII digits compare as numbers, all other characters by code point.
pub(crate) fn compare(left: &str, right: &str) -> Ordering {
    let (mut a, mut b) = (left, right);
    loop {
        let ((number_a, rest_a), (number_b, rest_b)) = (digits(a), digits(b));
        let order = if number_a.is_empty() || number_b.is_empty() {
            match (a.chars().next(), b.chars().next()) {
                // Texts such as `01` and `1` are equal as numbers, and differ as texts.
                (None, None) => return left.cmp(right),
                (x, y) if x != y => return x.cmp(&y),
                (x, _) => {
                    let length = x.map_or(0, char::len_utf8);
                    (a, b) = (&a[length..], &b[length..]);
                    Ordering::Equal
                }
            }
        } else {
            (a, b) = (rest_a, rest_b);
            by_value(number_a, number_b)
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Splits the digits from the start of a text.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// Compares two numbers of any length.
fn by_value(left: &str, right: &str) -> Ordering {
    let (left, right) = (left.trim_start_matches('0'), right.trim_start_matches('0'));
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_texts_compare_by_value() {
        let mut ids = vec![
            "order-10",
            "order-9",
            "b",
            "order-2::sub::10",
            "order-2::sub::4",
            "order-2",
            "",
            "order-",
            "é-2",
            "order-18446744073709551617",
            "order-002",
            "10",
            "9a",
        ];
        ids.sort_by(|a, b| compare(a, b));
        assert_eq!(
            ids,
            [
                "",
                "9a",
                "10",
                "b",
                "order-",
                "order-002",
                "order-2",
                "order-2::sub::4",
                "order-2::sub::10",
                "order-9",
                "order-10",
                "order-18446744073709551617",
                "é-2",
            ]
        );
    }
}
