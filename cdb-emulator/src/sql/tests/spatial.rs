//! Tests of the functions on GeoJSON.

use serde_json::json;

use super::functions::{gives, undefined};

/// The unit square and shapes around it.
const SQUARE: &str = "{type: 'Polygon', coordinates: [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]}";

fn point(x: f64, y: f64) -> String {
    format!("{{type: 'Point', coordinates: [{x}, {y}]}}")
}

#[test]
fn spatial_functions_compare_shapes() {
    let line = "{type: 'LineString', coordinates: [[-1, 0.5], [2, 0.5]]}";
    let far = "{type: 'Polygon', coordinates: [[[5, 5], [6, 5], [6, 6], [5, 5]]]}";
    for (expression, expected) in [
        (
            format!("ST_WITHIN({}, {SQUARE})", point(0.5, 0.5)),
            json!(true),
        ),
        (
            format!("ST_WITHIN({}, {SQUARE})", point(1.5, 0.5)),
            json!(false),
        ),
        (format!("ST_WITHIN({line}, {SQUARE})"), json!(false)),
        (format!("ST_INTERSECTS({line}, {SQUARE})"), json!(true)),
        (format!("ST_INTERSECTS({far}, {SQUARE})"), json!(false)),
        (
            format!("ST_DISTANCE({}, {SQUARE})", point(0.5, 0.5)),
            json!(0),
        ),
        (format!("ST_ISVALID({SQUARE})"), json!(true)),
        (format!("ST_ISVALID({})", point(181.0, 0.0)), json!(false)),
        (
            format!("ST_ISVALIDDETAILED({}).valid", point(0.0, 91.0)),
            json!(false),
        ),
    ] {
        gives(&[(&expression, expected)]);
    }
    // A degree on the equator, and on a meridian, on the ellipsoid WGS 84.
    for (a, b, meters) in [
        (point(0.0, 0.0), point(1.0, 0.0), 111_319.49),
        (point(0.0, 0.0), point(0.0, 1.0), 110_574.39),
        (point(3.0, 0.0), SQUARE.to_owned(), 222_638.98),
    ] {
        let expression = format!("ABS(ST_DISTANCE({a}, {b}) - {meters}) < 1");
        gives(&[(&expression, json!(true))]);
    }
    let area = format!("ABS(ST_AREA({SQUARE}) - 12308778361) < 100000");
    gives(&[(&area, json!(true))]);
    undefined(&["ST_DISTANCE(1, 2)"]);
}
