//! Functions on GeoJSON: points, lines, polygons and multi-polygons in degrees.
//!
//! Distances and areas are those of the ellipsoid WGS 84. Edges are straight lines in degrees, where
//! the service uses shortest paths; for shapes of a country's size the two are the same.

use geo::algorithm::{
    CoordsIter as _, Distance as _, GeodesicArea as _, HaversineClosestPoint as _, Relate as _,
    Validation as _,
};
use geo::{Closest, Coord, Geodesic, Geometry, LineString, MultiPolygon, Point, Polygon};
use serde_json::{Value, json};

use super::call::{Call, Function, finite};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("ST_AREA", 1, 1, |call| {
        finite(shape(call, 0)?.geodesic_area_unsigned())
    }),
    Function::new("ST_DISTANCE", 2, 2, |call| {
        finite(distance(&shape(call, 0)?, &shape(call, 1)?)?)
    }),
    Function::new("ST_INTERSECTS", 2, 2, |call| {
        let matrix = shape(call, 0)?.relate(&shape(call, 1)?);
        Some(matrix.is_intersects().into())
    }),
    Function::new("ST_ISVALID", 1, 1, |call| {
        Some(read(call.value(0)?).is_ok().into())
    }),
    Function::new("ST_ISVALIDDETAILED", 1, 1, |call| {
        Some(match read(call.value(0)?) {
            Ok(_) => json!({ "valid": true }),
            Err(reason) => json!({ "valid": false, "reason": reason }),
        })
    }),
    Function::new("ST_WITHIN", 2, 2, |call| {
        let matrix = shape(call, 0)?.relate(&shape(call, 1)?);
        Some(matrix.is_within().into())
    }),
];

/// The work of a function on a shape, per coordinate.
const COST: usize = 16;

/// Returns an argument that is a valid shape.
fn shape(call: &Call<'_>, at: usize) -> Option<Geometry> {
    let shape = read(call.value(at)?).ok()?;
    call.affords(COST * shape.coords_count())?;
    Some(shape)
}

/// Returns the distance in meters; 0 for shapes that intersect.
fn distance(a: &Geometry, b: &Geometry) -> Option<f64> {
    if let (Geometry::Point(a), Geometry::Point(b)) = (a, b) {
        return Some(Geodesic.distance(*a, *b));
    }
    if a.relate(b).is_intersects() {
        return Some(0.0);
    }
    // The nearest pair of points has a corner of one of the shapes.
    let nearest = [nearest(a, b), nearest(b, a)];
    nearest.into_iter().flatten().min_by(f64::total_cmp)
}

/// Returns the distance of the corner of `corners` that is nearest to `shape`.
fn nearest(corners: &Geometry, shape: &Geometry) -> Option<f64> {
    let corners = corners.coords_iter().map(Point::from);
    let distances = corners.filter_map(|corner| match shape.haversine_closest_point(&corner) {
        Closest::Intersection(point) | Closest::SinglePoint(point) => {
            Some(Geodesic.distance(corner, point))
        }
        Closest::Indeterminate => None,
    });
    distances.min_by(f64::total_cmp)
}

/// Reads GeoJSON. Fails with the reason.
fn read(value: &Value) -> Result<Geometry, String> {
    let coordinates = &value["coordinates"];
    let shape: Geometry = match value["type"].as_str() {
        Some("Point") => Point::from(position(coordinates)?).into(),
        Some("LineString") => line(coordinates)?.into(),
        Some("Polygon") => polygon(coordinates)?.into(),
        Some("MultiPolygon") => {
            let parts: Result<Vec<Polygon>, String> =
                items(coordinates)?.iter().map(polygon).collect();
            MultiPolygon::new(parts?).into()
        }
        _ => {
            return Err(
                "The type has to be Point, LineString, Polygon or MultiPolygon.".to_owned(),
            );
        }
    };
    match shape.check_validation() {
        Ok(()) => Ok(shape),
        Err(reason) => Err(format!("{reason}.")),
    }
}

fn items(value: &Value) -> Result<&[Value], String> {
    let items = value.as_array().map(Vec::as_slice);
    items.ok_or_else(|| "The coordinates have to be arrays.".to_owned())
}

fn position(value: &Value) -> Result<Coord, String> {
    let numbers: Option<Vec<f64>> = items(value)?.iter().map(Value::as_f64).collect();
    let Some([x, y, ..]) = numbers.as_deref() else {
        return Err("A position has to be two or three numbers.".to_owned());
    };
    if x.abs() > 180.0 {
        return Err("Longitude values must be between -180 and 180 degrees.".to_owned());
    }
    if y.abs() > 90.0 {
        return Err("Latitude values must be between -90 and 90 degrees.".to_owned());
    }
    Ok(Coord { x: *x, y: *y })
}

fn line(value: &Value) -> Result<LineString, String> {
    let positions: Result<Vec<Coord>, String> = items(value)?.iter().map(position).collect();
    Ok(LineString::new(positions?))
}

fn polygon(value: &Value) -> Result<Polygon, String> {
    let rings: Result<Vec<LineString>, String> = items(value)?.iter().map(line).collect();
    let mut rings = rings?;
    if rings
        .iter()
        .any(|ring| ring.0.len() < 4 || !ring.is_closed())
    {
        return Err(
            "A ring has to have at least four positions, and to end where it begins.".to_owned(),
        );
    }
    if rings.is_empty() {
        return Err("A polygon has to have a ring.".to_owned());
    }
    let outer = rings.remove(0);
    Ok(Polygon::new(outer, rings))
}
