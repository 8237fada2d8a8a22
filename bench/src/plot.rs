//! Plots as SVG, written without a library: only bars and curves on logarithmic axes are needed.

use std::fmt::Write as _;
use std::ops::Range;

/// Values over sizes.
#[derive(Debug)]
pub struct Curve {
    pub label: String,
    pub points: Vec<(f64, f64)>,
}

/// Values side by side.
#[derive(Debug)]
pub struct Group {
    pub label: String,
    /// One value per series; `None` if it was not measured.
    pub values: Vec<Option<f64>>,
}

const COLOURS: [&str; 4] = ["#1f77b4", "#d95f02", "#1b9e77", "#7570b3"];
const WIDTH: f64 = 760.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 70.0;
const TOP: f64 = 64.0;
/// Left end of the axis of sizes, and its height.
const FRAME: f64 = 70.0;
const BOTTOM: f64 = 340.0;
const BAR: f64 = 13.0;
const GAP: f64 = 12.0;

/// Horizontal bars in groups, on a logarithmic scale.
pub fn bars(title: &str, series: &[String], groups: &[Group]) -> String {
    let row = BAR * series.len() as f64 + GAP;
    let height = TOP + row * groups.len() as f64 + 10.0;
    let values = || {
        groups
            .iter()
            .flat_map(|group| group.values.iter().flatten().copied())
    };
    let scale = Scale::logarithmic(values(), LEFT..WIDTH - RIGHT);
    let mut svg = open(title, height);
    legend(&mut svg, series);
    for (at, group) in groups.iter().enumerate() {
        let top = TOP + row * at as f64;
        text(
            &mut svg,
            LEFT - 8.0,
            top + row / 2.0 - 2.0,
            "end",
            &group.label,
        );
        for (number, value) in group.values.iter().enumerate() {
            let Some(value) = value else { continue };
            let y = top + BAR * number as f64;
            let width = (scale.place(*value) - LEFT).max(1.0);
            put(
                &mut svg,
                &format!(
                    r#"<rect x="{LEFT}" y="{y:.1}" width="{width:.1}" height="{:.1}" fill="{}"/>"#,
                    BAR - 2.0,
                    colour(number)
                ),
            );
            text(
                &mut svg,
                LEFT + width + 4.0,
                y + BAR - 4.0,
                "start",
                &crate::report::number(*value),
            );
        }
    }
    close(svg)
}

/// Curves over a logarithmic axis of sizes; values from zero.
pub fn curves(title: &str, axis: &str, curves: &[Curve]) -> String {
    let points = || curves.iter().flat_map(|curve| curve.points.iter());
    let across = Scale::logarithmic(points().map(|point| point.0), FRAME..WIDTH - RIGHT);
    let up = Scale::linear(points().map(|point| point.1), BOTTOM..TOP + 10.0);
    let mut svg = open(title, BOTTOM + 50.0);
    let names: Vec<String> = curves.iter().map(|curve| curve.label.clone()).collect();
    legend(&mut svg, &names);
    let frame = format!(
        r##"<path d="M{FRAME} {TOP} V{BOTTOM} H{}" fill="none" stroke="#888"/>"##,
        WIDTH - RIGHT
    );
    put(&mut svg, &frame);
    text(
        &mut svg,
        f64::midpoint(FRAME, WIDTH - RIGHT),
        BOTTOM + 40.0,
        "middle",
        axis,
    );
    let mut sizes: Vec<f64> = points().map(|point| point.0).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    for size in sizes {
        text(
            &mut svg,
            across.place(size),
            BOTTOM + 18.0,
            "middle",
            &format!("{size}"),
        );
    }
    for (number, curve) in curves.iter().enumerate() {
        line(&mut svg, colour(number), curve, &across, &up);
    }
    close(svg)
}

/// One curve, each of its points with its value.
fn line(svg: &mut String, colour: &str, curve: &Curve, across: &Scale, up: &Scale) {
    let place = |(x, y): &(f64, f64)| (across.place(*x), up.place(*y));
    let path: Vec<String> = curve
        .points
        .iter()
        .map(place)
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    let path = path.join(" ");
    put(
        svg,
        &format!(r#"<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>"#),
    );
    for point in &curve.points {
        let (x, y) = place(point);
        put(
            svg,
            &format!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{colour}"/>"#),
        );
        text(svg, x, y - 8.0, "middle", &crate::report::number(point.1));
    }
}

/// Maps values to positions, from the first of `places` to the last.
struct Scale {
    from: f64,
    to: f64,
    places: Range<f64>,
    logarithmic: bool,
}

impl Scale {
    fn logarithmic(values: impl Iterator<Item = f64>, places: Range<f64>) -> Self {
        let (from, to) = values
            .filter(|value| *value > 0.0)
            .fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        // Start below the smallest value, so that its bar is visible.
        Self {
            from: (from * 0.8).ln(),
            to: to.ln(),
            places,
            logarithmic: true,
        }
    }

    fn linear(values: impl Iterator<Item = f64>, places: Range<f64>) -> Self {
        Self {
            from: 0.0,
            to: values.fold(0.0, f64::max),
            places,
            logarithmic: false,
        }
    }

    fn place(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.ln() } else { value };
        let share = (value - self.from) / (self.to - self.from);
        let share = if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        };
        self.places.start + share * (self.places.end - self.places.start)
    }
}

fn colour(number: usize) -> &'static str {
    COLOURS[number % COLOURS.len()]
}

fn open(title: &str, height: f64) -> String {
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0}" font-family="sans-serif" font-size="11" fill="#333">
<rect width="100%" height="100%" fill="white"/>
<text x="12" y="22" font-size="15">{}</text>
"##,
        escaped(title)
    );
    svg.reserve(4096);
    svg
}

fn close(mut svg: String) -> String {
    svg.push_str("</svg>\n");
    svg
}

fn legend(svg: &mut String, series: &[String]) {
    for (number, label) in series.iter().enumerate() {
        let x = 12.0 + 160.0 * number as f64;
        put(
            svg,
            &format!(
                r#"<rect x="{x}" y="36" width="11" height="11" fill="{}"/>"#,
                colour(number)
            ),
        );
        text(svg, x + 16.0, 46.0, "start", label);
    }
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    put(
        svg,
        &format!(
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{}</text>"#,
            escaped(text)
        ),
    );
}

fn put(svg: &mut String, element: &str) {
    // Writing to a string does not fail.
    let _written = writeln!(svg, "{element}");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::{Group, Scale, bars};

    #[test]
    fn a_longer_bar_is_a_larger_value() {
        let scale = Scale::logarithmic([1.0, 10.0, 100.0].into_iter(), 0.0..100.0);
        assert!(scale.place(1.0) > 0.0);
        assert!(scale.place(10.0) > scale.place(1.0));
        assert!((scale.place(100.0) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_missing_measurement_has_no_bar() {
        let group = Group {
            label: "a < b".to_owned(),
            values: vec![Some(3.0), None],
        };
        let svg = bars("t", &["x".to_owned(), "y".to_owned()], &[group]);
        assert_eq!(svg.matches("<rect").count(), 1 + 2 + 1);
        assert!(svg.contains("a &lt; b"));
    }
}
