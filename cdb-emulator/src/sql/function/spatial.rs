//! Functions on GeoJSON: points, lines, polygons and multi-polygons in degrees.
//!
//! Distances and areas are those of the ellipsoid WGS 84. Edges are straight lines in degrees, whereas
//! the service uses geodesics; for shapes up to the size of a country the difference is small.

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

/// The work units that a function on a shape costs per coordinate.
const COST: usize = 16;

/// Returns an argument that is a valid shape.
fn shape(call: &Call<'_>, at: usize) -> Option<Geometry> {
    let shape = read(call.value(at)?).ok()?;
    call.charge(COST * shape.coords_count())?;
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
    // The nearest pair of points has a vertex of one of the shapes.
    let distances = [vertex_distance(a, b), vertex_distance(b, a)];
    distances.into_iter().flatten().min_by(f64::total_cmp)
}

/// Returns the distance between `to` and the nearest vertex of `from`.
fn vertex_distance(from: &Geometry, to: &Geometry) -> Option<f64> {
    let vertices = from.coords_iter().map(Point::from);
    let distances = vertices.filter_map(|vertex| match to.haversine_closest_point(&vertex) {
        Closest::Intersection(point) | Closest::SinglePoint(point) => {
            Some(Geodesic.distance(vertex, point))
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
            let polygons = items(coordinates)?.iter().map(polygon);
            polygons.collect::<Result<MultiPolygon, _>>()?.into()
        }
        _ => return Err("The type must be Point, LineString, Polygon or MultiPolygon.".to_owned()),
    };
    shape
        .check_validation()
        .map_err(|reason| format!("{reason}."))?;
    Ok(shape)
}

fn items(value: &Value) -> Result<&[Value], String> {
    let items = value.as_array().map(Vec::as_slice);
    items.ok_or_else(|| "The coordinates must be arrays.".to_owned())
}

fn position(value: &Value) -> Result<Coord, String> {
    let numbers: Option<Vec<f64>> = items(value)?.iter().map(Value::as_f64).collect();
    let Some([x, y, ..]) = numbers.as_deref() else {
        return Err("A position must be two or three numbers.".to_owned());
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
    items(value)?.iter().map(position).collect()
}

fn polygon(value: &Value) -> Result<Polygon, String> {
    let rings: Result<Vec<LineString>, String> = items(value)?.iter().map(line).collect();
    let rings = rings?;
    if rings
        .iter()
        .any(|ring| ring.0.len() < 4 || !ring.is_closed())
    {
        return Err("A ring must have at least four positions and end where it begins.".to_owned());
    }
    let mut rings = rings.into_iter();
    let outer = rings.next().ok_or("A polygon must have a ring.")?;
    Ok(Polygon::new(outer, rings.collect()))
}
