//! Tests of binary bodies; most of them are test vectors of the Rust driver
//! (`binary_json_vectors.json`).

use serde_json::json;

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.split_whitespace();
    digits
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

fn check(cases: &[(&str, Value)]) {
    for (hex, expected) in cases {
        let body = bytes(&format!("80 {hex}"));
        assert_eq!(read::<Value>(&body).unwrap(), *expected, "{hex}");
    }
}

#[test]
fn numbers_of_all_widths_are_read() {
    check(&[
        ("D0", json!(null)),
        ("D1", json!(false)),
        ("D2", json!(true)),
        ("1F", json!(31)),
        ("C8 C8", json!(200)),
        ("C9 18 FC", json!(-1000)),
        ("CA 70 11 01 00", json!(70000)),
        ("CB 00 0E FA D5 FE FF FF FF", json!(-5_000_000_000_i64)),
        (
            "C7 FE FF FF FF FF FF FF FF",
            json!(18_446_744_073_709_551_614_u64),
        ),
        ("CC 00 00 00 00 00 00 0C 40", json!(3.5)),
        ("D8 FB", json!(-5)),
        ("DC FE FF FF FF", json!(4_294_967_294_u32)),
        ("CD 00 00 C0 3F", json!(1.5)),
    ]);
}

#[test]
fn strings_of_all_forms_are_read() {
    check(&[
        ("2C", json!("id")),
        ("3F", json!("_id")),
        ("80", json!("")),
        ("82 68 69", json!("hi")),
        ("C0 05 68 65 6C 6C 6F", json!("hello")),
        ("C2 05 00 00 00 68 65 6C 6C 6F", json!("hello")),
        (
            "75 00 01 02 03 04 05 06 07 08 09 0A 0B 0C 0D 0E 0F",
            json!("00102030-4050-6070-8090-a0b0c0d0e0f0"),
        ),
        (
            "76 00 01 02 03 04 05 06 07 08 09 0A 0B 0C 0D 0E 0F",
            json!("00102030-4050-6070-8090-A0B0C0D0E0F0"),
        ),
        (
            "77 00 00 84 21 00 00 20 00 00 00 A6 F7 9A A8 00 00",
            json!("\"00004812-0000-0200-0000-6a7fa98a0000\""),
        ),
        (
            "D3 00 01 02 03 04 05 06 07 08 09 0A 0B 0C 0D 0E 0F",
            json!("03020100-0504-0706-0809-0a0b0c0d0e0f"),
        ),
        ("71 01 01 66 6F", json!("Zm8=")),
        ("71 01 FD 41", json!("QQ")),
        ("72 02 00 00 66 6F 6F 62 61 72", json!("Zm9vYmFy")),
        ("73 01 00 FB FF FE", json!("-__-")),
        ("78 04 A1 B2", json!("1a2b")),
        ("79 01 0F", json!("F")),
        ("7A 07 13 53 1C 02", json!("2024-01")),
        ("7B 04 30 10 32", json!("0123")),
        ("7C 03 61 20 08", json!("abc")),
        ("7D 04 61 40 20 0C", json!("abcd")),
        ("7E 02 C8 34", json!("Hi")),
        ("7F 02 00 C8 34", json!("Hi")),
        ("DD 04 DE AD BE EF", json!("3q2+7w==")),
        ("E2 05 82 68 69 C3 03", json!(["hi", "hi"])),
        ("E2 08 82 68 69 C6 03 00 00 00", json!(["hi", "hi"])),
    ]);
}

#[test]
fn lists_and_objects_of_all_frames_are_read() {
    check(&[
        ("E0", json!([])),
        ("E8", json!({})),
        ("E1 D2", json!([true])),
        ("E9 2C D2", json!({ "id": true })),
        ("E2 03 00 01 D0", json!([0, 1, null])),
        ("E7 03 00 00 00 03 00 00 00 00 01 D0", json!([0, 1, null])),
        ("EA 04 2C 00 3B 01", json!({ "id": 0, "type": 1 })),
        ("EE 04 00 02 00 2C 00 3B 01", json!({ "id": 0, "type": 1 })),
        ("E2 05 E1 00 E9 2C 01", json!([[0], { "id": 1 }])),
        (
            "F0 DA 03 01 00 00 00 02 00 00 00 03 00 00 00",
            json!([1, 2, 3]),
        ),
        ("F1 D9 03 00 FF FF 00 00 E8 03", json!([-1, 0, 1000])),
        (
            "F2 F0 DA 02 02 01 00 00 00 02 00 00 00 03 00 00 00 04 00 00 00",
            json!([[1, 2], [3, 4]]),
        ),
    ]);
}

#[test]
fn a_text_body_is_read() {
    assert_eq!(read::<Value>(b"{\"a\": 1}").unwrap(), json!({ "a": 1 }));
    assert!(read::<Value>(b"").is_err());
}

#[test]
fn truncated_and_inconsistent_bodies_are_rejected() {
    let nested = "E1 ".repeat(200) + "D0";
    let long = format!("E4 FF FF FF FF {}", "D0 ".repeat(10));
    for hex in [
        "",
        "FF",
        "40",
        "67 00",
        "82 68",
        "C0 05 68",
        "E2 03 00 01",
        "E5 03 02 00 01 D0",
        "EA 02 2C 00 00",
        "E9 00 00",
        "D0 D0",
        "81 FF",
        "E2 03 C3 02 00",
        "E2 02 C3 09",
        "CE 00 00 00 00 00 00 F8 7F",
        "F2 F1 DA 01 01 00 00 00 00",
        "F3 F1 DA FF FF FF FF",
        &nested,
        &long,
    ] {
        let error = read::<Value>(&bytes(&format!("80 {hex}"))).unwrap_err();
        assert_eq!(error.status, 400, "{hex}");
    }
}

proptest::proptest! {
    #[test]
    fn any_body_is_read_without_a_panic(body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let mut binary = vec![PREAMBLE];
        binary.extend(body);
        if let Ok(value) = read::<Value>(&binary) {
            assert!(value.to_string().len() < 100 * 1024 * 1024);
        }
    }
}
