//! Tests of functions, with the examples of their references.

use serde_json::{Value, json};

use super::{answer, value};

#[track_caller]
pub(super) fn gives(cases: &[(&str, Value)]) {
    for (expression, expected) in cases {
        assert_eq!(value(expression), Some(expected.clone()), "{expression}");
    }
}

#[track_caller]
pub(super) fn undefined(expressions: &[&str]) {
    for expression in expressions {
        assert_eq!(value(expression), None, "{expression}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn texts_are_cut_searched_and_joined() {
    gives(&[
        ("CONCAT('a', 'b', 'c')", json!("abc")),
        ("CONTAINS('abc', 'B', true)", json!(true)),
        ("contains('abc', 'B')", json!(false)),
        ("ENDSWITH('abc', 'BC', true)", json!(true)),
        ("STRINGEQUALS('abc', 'aBC', true)", json!(true)),
        ("INDEX_OF('abcb', 'b')", json!(1)),
        ("INDEX_OF('abcb', 'b', 2)", json!(3)),
        ("INDEX_OF('äöü', 'ü')", json!(2)),
        ("INDEX_OF('abc', 'x')", json!(-1)),
        ("LASTINDEXOF('abcb', 'b')", json!(3)),
        ("LASTINDEXOF('abcb', 'b', 2)", json!(1)),
        ("LEFT('abc', 2)", json!("ab")),
        ("LEFT('abc', -2)", json!("")),
        ("RIGHT('abc', 2)", json!("bc")),
        ("RIGHT('abc', 9)", json!("abc")),
        ("SUBSTRING('abc', 1, 1)", json!("b")),
        ("SUBSTRING('abc', -1, 1)", json!("")),
        ("LENGTH('äb')", json!(2)),
        ("LOWER('ÄB') || UPPER('c')", json!("äbC")),
        (
            "LTRIM('  a ') || RTRIM(' b  ') || TRIM(' c ')",
            json!("a  bc"),
        ),
        ("TRIM('xxaxx', 'x')", json!("a")),
        ("REPLACE('a-b-c', '-', '+')", json!("a+b+c")),
        ("REPLICATE('ab', 2)", json!("abab")),
        ("REVERSE('abc')", json!("cba")),
        (
            "TOSTRING(1.5) || TOSTRING(true) || TOSTRING([1])",
            json!("1.5true[1]"),
        ),
        ("STRINGJOIN(['6', '7', '4'], 'A')", json!("6A7A4")),
        ("STRINGSPLIT('Handlebar', 'e')", json!(["Handl", "bar"])),
        ("STRINGSPLIT('Helmet', '')", json!(["Helmet"])),
        (
            "CONTAINS_ALL_CI('Have a nice day!', 'HAVE', 'day!')",
            json!(true),
        ),
        (
            "CONTAINS_ALL_CI('Have a nice day!', undefined, 'had')",
            json!(false),
        ),
        (
            "CONTAINS_ANY_CS('Have a nice day!', 'had', 'nice')",
            json!(true),
        ),
        ("REGEXMATCH('abcd', 'ABC', 'i')", json!(true)),
        ("REGEXMATCH('abcd', '^bc')", json!(false)),
    ]);
    undefined(&[
        "CONCAT('a', 1)",
        "LENGTH(c.n)",
        "LOWER(c.missing)",
        "REPLACE('a', '', 'b')",
        "REPLICATE('a', -1)",
        "REPLICATE('a', 10001)",
        "SUBSTRING('abc', 0.5, 1)",
        "STRINGSPLIT('a', undefined)",
        "CONTAINS_ALL_CI('Have a nice day!', undefined, 'nice')",
        "REGEXMATCH('abcd', '(')",
    ]);
}

#[test]
fn texts_are_parsed_as_values() {
    gives(&[
        ("STRINGTOARRAY('[1, \"a\"]')", json!([1, "a"])),
        ("STRINGTOBOOLEAN(' true ')", json!(true)),
        ("STRINGTONULL('null')", json!(null)),
        ("STRINGTONUMBER('3.0e2')", json!(300)),
        ("STRINGTOOBJECT('{\"a\": 1}')", json!({ "a": 1 })),
    ]);
    undefined(&[
        "STRINGTOARRAY('[1')",
        "STRINGTONUMBER('0x1')",
        "STRINGTOBOOLEAN('TRUE')",
        "STRINGTONUMBER(1)",
    ]);
}

#[test]
fn arrays_are_searched_cut_and_compared_as_sets() {
    gives(&[
        ("ARRAY_CONCAT([1], [2], [])", json!([1, 2])),
        ("ARRAY_CONTAINS([1, 2], 2)", json!(true)),
        ("ARRAY_CONTAINS_ANY([1, 2], 5, 2)", json!(true)),
        (
            "ARRAY_CONTAINS_ANY([1, 2, 3, 4], 1, undefined)",
            json!(true),
        ),
        ("ARRAY_CONTAINS_ALL([1, 2], 2, 5)", json!(false)),
        ("ARRAY_LENGTH([1, undefined, 2])", json!(2)),
        ("ARRAY_SLICE(['a', 'b', 'c'], 1)", json!(["b", "c"])),
        ("ARRAY_SLICE(['a', 'b', 'c'], -2, 1)", json!(["b"])),
        ("ARRAY_SLICE(['a', 'b', 'c'], 1, -100)", json!([])),
        ("ARRAY_MEDIAN([1, 2, 3, 4])", json!(2.5)),
        ("ARRAY_MEDIAN([1.0, 2.0, 3.3, 4.7, 7.8])", json!(3.3)),
        (
            "[ARRAY_SUM([1, 2]), ARRAY_AVG([1, 2]), ARRAY_MIN([2, 'a', null]), ARRAY_MAX([2, 'a'])]",
            json!([3, 1.5, null, "a"]),
        ),
        ("SETINTERSECT([1, 2, 2.0, 'a'], ['a', 2])", json!([2, "a"])),
        ("SETUNION([1, 1], [2, 1])", json!([1, 2])),
        ("SETDIFFERENCE([1, 1, 1, 1], [2, 3, 4])", json!([1])),
        (
            "SETEQUAL([{ 'a': 1, 'b': 2 }], [{ 'b': 2, 'a': 1 }])",
            json!(true),
        ),
        ("CHOOSE(2, 'abc', 1, true)", json!(1)),
        ("OBJECTTOARRAY({ 'a': 1 })", json!([{ "k": "a", "v": 1 }])),
        (
            "OBJECTTOARRAY({ 'a': 1 }, 'name')",
            json!([{ "name": "a", "v": 1 }]),
        ),
        ("IIF(true, 1, 2)", json!(1)),
        ("IIF('x', 1, 2)", json!(2)),
        ("DOCUMENTID(c)", json!(13)),
    ]);
    undefined(&[
        "ARRAY_CONTAINS_ANY([1, 2, 3, 4], 5, undefined)",
        "ARRAY_LENGTH('a')",
        "ARRAY_MEDIAN(['a'])",
        "ARRAY_MEDIAN([])",
        "ARRAY_SUM([1, 'a'])",
        "CHOOSE(0, 1)",
        "CHOOSE(5, 1)",
        "IIF(true, undefined, 2)",
    ]);
}

#[test]
fn numbers_are_doubles_and_integers_wrap_around() {
    gives(&[
        ("ROUND(-6.5)", json!(-7)),
        ("ROUND(0.5)", json!(1)),
        ("TRUNC(-2.7)", json!(-2)),
        (
            "[FLOOR(-2.5), CEILING(-2.5), ABS(-2), SIGN(-9), SQUARE(3)]",
            json!([-3, -2, 2, -1, 9]),
        ),
        ("POWER(2, 10)", json!(1024)),
        ("LOG10(1000)", json!(3)),
        ("LOG(8, 2)", json!(3)),
        ("DEGREES(PI())", json!(180)),
        ("ATN2(0, 1)", json!(0)),
        ("NUMBERBIN(37.752, -100)", json!(100)),
        ("NUMBERBIN(37.752, 0.1)", json!(37.7)),
        ("NUMBERBIN(37.752)", json!(37)),
        (
            "INTADD(9007199254740993, 0)",
            json!(9_007_199_254_740_992_i64),
        ),
        ("INTMUL(9223372036854774784, 2)", json!(-2048)),
        ("INTDIV(-7, 2)", json!(-3)),
        ("INTMOD(-7, 2)", json!(-1)),
        ("INTBITLEFTSHIFT(16, 4)", json!(256)),
        ("INTBITRIGHTSHIFT(-16, 2)", json!(-4)),
        (
            "[INTBITAND(6, 3), INTBITOR(6, 3), INTBITXOR(6, 3), INTBITNOT(0), INTSUB(1, 2)]",
            json!([2, 7, 5, -1, -1]),
        ),
        ("RAND() >= 0 AND RAND() < 1", json!(true)),
        (
            "IS_INTEGER(3.0) AND NOT IS_INTEGER(3.5) AND IS_FINITE_NUMBER(1e300)",
            json!(true),
        ),
    ]);
    undefined(&[
        "SQRT(-1)",
        "LOG(0)",
        "NUMBERBIN(37.752, 0)",
        "INTBITLEFTSHIFT(16, 0.4)",
        "INTDIV(1, 0)",
        "POWER(10, 400)",
        "1e308 * 10",
        "5 % 0",
        "ABS('1')",
    ]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn date_functions_add_compare_and_split_dates() {
    gives(&[
        (
            "DATETIMEADD('mm', 1, '2020-01-31T00:00:00.0000000Z')",
            json!("2020-02-29T00:00:00.0000000Z"),
        ),
        (
            "DATETIMEADD('year', -2, '2020-07-03T00:00:00.0000000Z')",
            json!("2018-07-03T00:00:00.0000000Z"),
        ),
        (
            "DATETIMEADD('hh', 25, '2020-07-03')",
            json!("2020-07-04T01:00:00.0000000Z"),
        ),
        (
            "DATETIMEBIN('2021-01-08T18:35:00.0000000', 'dd')",
            json!("2021-01-08T00:00:00.0000000Z"),
        ),
        (
            "DATETIMEBIN('2021-01-08T18:35:00.0000000', 'hh', 5)",
            json!("2021-01-08T15:00:00.0000000Z"),
        ),
        (
            "DATETIMEBIN('2021-01-08T18:35:00.0000000', 'dd', 7)",
            json!("2021-01-07T00:00:00.0000000Z"),
        ),
        (
            "DATETIMEBIN('2021-01-08T18:35:00.0000000', 'dd', 7, '1601-01-01T00:00:00.0000000')",
            json!("2021-01-04T00:00:00.0000000Z"),
        ),
        (
            "DATETIMEDIFF('day', '2020-01-01T01:02:03.1234527Z', '2020-01-03T01:02:03.1234567Z')",
            json!(2),
        ),
        (
            "DATETIMEDIFF('yyyy', '2028-01-01T01:02:03.1234527Z', '2020-01-03T01:02:03.1234567Z')",
            json!(-8),
        ),
        (
            "DATETIMEDIFF('hh', '2020-01-01T01:00:00.1234527Z', '2020-01-01T01:59:59.1234567Z')",
            json!(0),
        ),
        (
            "DATETIMEFROMPARTS(2017, 4, 20, 13, 15, 20, 3456789)",
            json!("2017-04-20T13:15:20.3456789Z"),
        ),
        (
            "DATETIMEFROMPARTS(2020, 9, 4)",
            json!("2020-09-04T00:00:00.0000000Z"),
        ),
        (
            "DATETIMEPART('mcs', '2020-01-02T03:04:05.6789123Z')",
            json!(678_912),
        ),
        (
            "DATETIMEPART('NS', '2020-01-02T03:04:05.6789123Z')",
            json!(678_912_300),
        ),
        (
            "[YEAR(c.d ?? '2024-02-29'), MONTH('2024-02-29'), DAY('2024-02-29 10:00:00')]",
            json!([2024, 2, 29]),
        ),
        (
            "DATETIMETOTICKS('1970-01-01T00:00:01.0000001Z')",
            json!(10_000_001),
        ),
        (
            "DATETIMETOTIMESTAMP('1969-12-31T23:59:59.9999999Z')",
            json!(-1),
        ),
        (
            "TICKSTODATETIME(15943607943307280)",
            json!("2020-07-10T05:59:54.3307280Z"),
        ),
        (
            "TIMESTAMPTODATETIME(1594227912345)",
            json!("2020-07-08T17:05:12.3450000Z"),
        ),
        (
            "GETCURRENTDATETIME()",
            json!("2026-03-04T05:06:07.1234567Z"),
        ),
        ("GETCURRENTTIMESTAMPSTATIC()", json!(1_772_600_767_123_i64)),
        ("GETCURRENTTICKS()", json!(17_726_007_671_234_567_i64)),
        ("AGO('d', 4)", json!("2026-02-28T05:06:07.1234567Z")),
        ("NOW('m', 12)", json!("2027-03-04T05:06:07.1234567Z")),
        (
            "IS_DATETIME('2023-03-06 15:29:00Z') AND NOT IS_DATETIME('2023-02-29')",
            json!(true),
        ),
    ]);
    undefined(&[
        "DATETIMEADD('yyyy', 8000, '2020-01-01')",
        "DATETIMEADD('weeks', 1, '2020-01-01')",
        "DATETIMEADD('dd', 9223372036854775807, '2020-01-01')",
        "DATETIMEBIN('2021-01-08', 'mm')",
        "DATETIMEBIN('2021-01-08', 'dd', 0)",
        "DATETIMEBIN('2021-01-08', 'dd', 1, '1600-01-01')",
        "DATETIMEDIFF('ns', '0001-01-01', 'then')",
        "DATETIMEFROMPARTS(-2000, -1, -1)",
        "DATETIMEFROMPARTS(2023, 2, 29)",
        "TICKSTODATETIME(9223372036854774784)",
        "YEAR('2024-02-29T24:00:00Z')",
    ]);
}

#[test]
fn an_unsupported_function_is_rejected_by_name() {
    for (expression, part) in [
        ("udf.f(1)", "it has no user-defined functions"),
        (
            "FROBNICATE(1)",
            "'FROBNICATE' is not a recognized built-in function name.",
        ),
        ("LENGTH()", "The LENGTH function requires 1 argument(s)."),
        (
            "SUBSTRING('a', 1)",
            "The SUBSTRING function requires 3 argument(s).",
        ),
    ] {
        let refused = answer(&format!("SELECT VALUE {expression} FROM c")).expect_err(expression);
        assert!(refused.contains(part), "{expression}: {refused}");
    }
}

#[test]
fn dates_are_formatted_with_the_specifiers_of_dot_net() {
    let date = "'2024-07-09T15:05:03.0234567Z'";
    for (pattern, expected) in [
        ("yyyy-MM-dd", "2024-07-09"),
        ("yy/M/d H:m:s", "24/7/9 15:5:3"),
        (
            "dddd, dd MMMM yyyy hh:mm tt",
            "Tuesday, 09 July 2024 03:05 PM",
        ),
        ("ddd MMM HH.fff", "Tue Jul 15.023"),
        ("fffffff", "0234567"),
        ("'at' HH", "at 15"),
    ] {
        let pattern = pattern.replace('\'', "\\'");
        let expression = format!("DATETIMEFORMAT({date}, '{pattern}')");
        gives(&[(&expression, json!(expected))]);
    }
}
