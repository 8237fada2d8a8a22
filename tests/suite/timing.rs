//! The list of docs/liveness.md: every duration of the crates that run timers.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// The crates that run timers, with the module that defines their durations.
const MODULES: [(&str, &str); 4] = [
    ("provider", "provider/src/timing.rs"),
    ("limits", "provider/src/queue/limits/protocol/timing.rs"),
    ("cdb-coordination", "cdb-coordination/src/timing.rs"),
    ("cdb-work", "cdb-work/src/timing.rs"),
];

const PAGE: &str = "docs/liveness.md";

/// The beginning of the generated part of the page.
const LIST: &str = "## Every duration\n";

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A constant: its name, its value, and the first clause of its documentation.
type Constant = (String, String, String);

/// Returns the documented durations of a module.
fn constants(source: &str) -> Vec<Constant> {
    let mut found = Vec::new();
    let (mut doc, mut statement) = (String::new(), String::new());
    for line in source.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("/// ") {
            doc.push_str(text);
            doc.push(' ');
        } else if line.starts_with("pub(") || !statement.is_empty() {
            statement.push_str(line);
            if line.ends_with(';') || line.ends_with('{') {
                found.extend(constant(&statement, &doc));
                (doc, statement) = (String::new(), String::new());
            }
        } else {
            doc.clear();
        }
    }
    found
}

fn constant(statement: &str, doc: &str) -> Option<Constant> {
    let (_, rest) = statement.split_once(" const ")?;
    let (name, rest) = rest.split_once(": ")?;
    let (kind, value) = rest.trim_end_matches(';').split_once(" = ")?;
    if !kind.contains("Duration") {
        return None;
    }
    let clause = doc.split([',', '.']).next().unwrap_or_default();
    Some((name.to_owned(), shown(value), without_links(clause.trim())))
}

/// Returns a sentence without the targets of its links, which only rustdoc resolves.
fn without_links(sentence: &str) -> String {
    let mut parts = sentence.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(part.split_once(')').map_or(part, |(_, after)| after));
    }
    text.replace("[`", "`").replace("`]", "`")
}

/// Returns a value as a reader writes it: `5 s`, or the expression if it is no plain duration.
fn shown(value: &str) -> String {
    if let Some(both) = value
        .strip_prefix('(')
        .and_then(|both| both.strip_suffix(')'))
        && let Some((first, second)) = both.split_once(", ")
    {
        return format!("{} to {}", shown(first), shown(second));
    }
    let call = value.trim_start_matches("Duration::");
    let (unit, digits) = call.split_once('(').unwrap_or(("", call));
    let digits = digits.trim_end_matches(')').replace('_', "");
    let factors: Option<Vec<u64>> = digits.split(" * ").map(|part| part.parse().ok()).collect();
    let Some(product) = factors.map(|factors| factors.iter().product()) else {
        return if value == "HOUR" {
            "1 h".to_owned()
        } else {
            format!("`{value}`")
        };
    };
    match unit {
        "ms" | "from_millis" => duration(Duration::from_millis(product)),
        "secs" | "from_secs" => duration(Duration::from_secs(product)),
        _ => value.to_owned(),
    }
}

fn duration(value: Duration) -> String {
    let seconds = value.as_secs();
    match value.subsec_millis() {
        0 if seconds >= 86_400 && seconds.is_multiple_of(86_400) => {
            format!("{} d", seconds / 86_400)
        }
        0 if seconds >= 3_600 && seconds.is_multiple_of(3_600) => format!("{} h", seconds / 3_600),
        0 => format!("{seconds} s"),
        _ if seconds == 0 => format!("{} ms", value.subsec_millis()),
        _ => format!("{} s", value.as_secs_f64()),
    }
}

fn list() -> String {
    let mut list = LIST.to_owned();
    for (name, module) in MODULES {
        let _infallible = write!(list, "\n### {name}\n\n");
        for (name, value, meaning) in constants(&read(module)) {
            let colon = if meaning.is_empty() { "" } else { ": " };
            let _infallible = writeln!(list, "- `{name}` = {value}{colon}{meaning}");
        }
    }
    list
}

#[test]
fn the_page_lists_every_duration() {
    let page = read(PAGE);
    let (text, listed) = page.split_once(LIST).expect("the page has the list");
    let list = list();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(PAGE);
        std::fs::write(path, format!("{text}{list}")).expect("the page can be written");
    } else {
        assert_eq!(
            format!("{LIST}{listed}"),
            list,
            "run the test with UPDATE_EXPECT=1, which writes {PAGE}"
        );
    }
}

#[test]
fn values_are_shown_as_a_reader_writes_them() {
    for (value, expected) in [
        ("secs(5)", "5 s"),
        ("ms(1250)", "1.25 s"),
        ("Duration::from_millis(50)", "50 ms"),
        ("Duration::from_secs(7 * 24 * 3600)", "7 d"),
        ("secs(60 * 60)", "1 h"),
        (
            "(Duration::from_millis(20), Duration::from_millis(500))",
            "20 ms to 500 ms",
        ),
        ("3", "3"),
        ("sum(A, B)", "`sum(A, B)`"),
    ] {
        assert_eq!(shown(value), expected, "{value}");
    }
}
