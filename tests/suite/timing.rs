//! The durations of docs/liveness.md are those of the crates that run timers. Their `timing.rs`
//! documents all of them.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

/// The modules that define the durations of the crates that run timers.
const MODULES: [&str; 4] = [
    "provider/src/timing.rs",
    "provider/src/queue/limits/protocol/timing.rs",
    "cdb-coordination/src/timing.rs",
    "cdb-work/src/timing.rs",
];

const PAGE: &str = "docs/liveness.md";

/// Settings that the page names, with the constants that are their defaults.
const SETTINGS: [(&str, &str); 1] = [("max_poll_interval", "DEFAULT_MAX_POLL")];

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A constant: its name, its value, and whether a comment explains it or the one before it.
#[derive(Debug)]
struct Constant {
    name: String,
    value: String,
    is_explained: bool,
}

/// Returns the durations that a module defines.
fn constants(source: &str) -> Vec<Constant> {
    let mut found = Vec::new();
    let (mut is_explained, mut statement) = (false, String::new());
    for line in source.lines().map(str::trim) {
        if line.starts_with("///") || line.starts_with("// ") {
            is_explained = true;
        } else if line.starts_with("pub(") || !statement.is_empty() {
            statement.push_str(line);
            if line.ends_with(';') || line.ends_with('{') {
                found.extend(constant(&statement, is_explained));
                statement.clear();
            }
        } else if line.is_empty() || line.ends_with('}') {
            is_explained = false;
        }
    }
    found
}

fn constant(statement: &str, is_explained: bool) -> Option<Constant> {
    let (_, rest) = statement.split_once(" const ")?;
    let (name, rest) = rest.split_once(": ")?;
    let (kind, value) = rest.trim_end_matches(';').split_once(" = ")?;
    kind.contains("Duration").then(|| Constant {
        name: name.to_owned(),
        value: value.to_owned(),
        is_explained,
    })
}

/// Returns the value of an expression such as `secs(5)`; `None` if it is no plain duration.
fn value_of(expression: &str) -> Option<Duration> {
    let call = expression.trim_start_matches("Duration::");
    let (unit, digits) = call.split_once('(')?;
    let digits = digits.trim_end_matches(')').replace('_', "");
    let factors: Option<Vec<u64>> = digits.split(" * ").map(|part| part.parse().ok()).collect();
    let product = factors?.iter().product();
    match unit {
        "ms" | "from_millis" => Some(Duration::from_millis(product)),
        "secs" | "from_secs" => Some(Duration::from_secs(product)),
        _ => None,
    }
}

/// Returns a duration as a reader writes it: `5 s`, `20 ms`, `1.25 s`.
fn shown(value: Duration) -> String {
    match (value.as_secs(), value.subsec_millis()) {
        (0, millis) => format!("{millis} ms"),
        (seconds, 0) => format!("{seconds} s"),
        _ => format!("{} s", value.as_secs_f64()),
    }
}

/// Returns the sum of names in backticks, `A` + `B`; `None` if a text is anything else.
fn sum(formula: &str, values: &HashMap<String, Duration>) -> Option<Duration> {
    let mut total = Duration::ZERO;
    for part in formula.split(" + ") {
        let name = part.strip_prefix('`')?.strip_suffix('`')?;
        total += *values.get(name)?;
    }
    Some(total)
}

/// Returns where a page names durations with other values, or none at all.
fn wrong(page: &str, values: &HashMap<String, Duration>) -> Vec<String> {
    let mut wrong = Vec::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let with_sum = cells.windows(2).find_map(|pair| {
            let total = sum(pair[0], values)?;
            Some((shown(total), pair[1]))
        });
        if let Some((total, told)) = with_sum {
            if total != told {
                wrong.push(format!("it is {total}: {line}"));
            }
            continue;
        }
        let parts: Vec<&str> = line.split('`').collect();
        for at in (1..parts.len().saturating_sub(1)).step_by(2) {
            let is_constant = |c: char| c.is_ascii_uppercase() || c == '_';
            if !parts[at].contains('_') || !parts[at].chars().all(is_constant) {
                continue;
            }
            let expected = values.get(parts[at]).copied().map(shown);
            let told = parts[at + 1].strip_prefix(" (");
            let told = told
                .and_then(|rest| rest.split_once(')'))
                .map(|told| told.0);
            if expected.is_none() || expected.as_deref() != told {
                wrong.push(format!("`{}` is {expected:?}: {line}", parts[at]));
            }
        }
    }
    wrong
}

/// The durations of all modules that are plain ones, by name.
fn values() -> HashMap<String, Duration> {
    let mut values = HashMap::new();
    // The page means those of the provider where a name is taken twice.
    for constant in MODULES.iter().flat_map(|module| constants(&read(module))) {
        if let Some(value) = value_of(&constant.value) {
            values.entry(constant.name).or_insert(value);
        }
    }
    for (setting, constant) in SETTINGS {
        values.insert(setting.to_owned(), values[constant]);
    }
    values
}

#[test]
fn the_page_has_the_values_of_the_durations_that_it_names() {
    let wrong = wrong(&read(PAGE), &values());
    assert!(wrong.is_empty(), "{PAGE}:\n{}", wrong.join("\n"));
}

#[test]
fn every_duration_is_explained_where_it_is_defined() {
    for module in MODULES {
        let found = constants(&read(module));
        assert!(found.len() > 20, "{module}: {}", found.len());
        let silent: Vec<Constant> = found
            .into_iter()
            // The fields of the configuration explain their defaults.
            .filter(|constant| !constant.is_explained && !constant.name.starts_with("DEFAULT_"))
            .collect();
        assert!(silent.is_empty(), "{module}: {silent:?}");
    }
}

#[test]
fn values_are_read_as_the_modules_write_them() {
    for (expression, expected) in [
        ("secs(5)", "5 s"),
        ("ms(1250)", "1.25 s"),
        ("Duration::from_millis(50)", "50 ms"),
        ("Duration::from_secs(60 * 60)", "3600 s"),
    ] {
        let value = value_of(expression).map(shown);
        assert_eq!(value.as_deref(), Some(expected), "{expression}");
    }
    assert_eq!(value_of("sum(A, B)"), None);
}

#[test]
fn a_wrong_value_is_found() {
    let values = HashMap::from([
        ("AFTER".to_owned(), Duration::from_secs(5)),
        ("SEARCH_FOR".to_owned(), Duration::from_secs(8)),
    ]);
    let page = "| B | `AFTER` + `SEARCH_FOR` | 13 s |\nup to `SEARCH_FOR` (8 s)";
    assert!(wrong(page, &values).is_empty());
    for page in [
        "| B | `AFTER` + `SEARCH_FOR` | 12 s |",
        "up to `SEARCH_FOR` (7 s)",
        "up to `SEARCH_FOR`",
        "up to `LOOK_FOR` (8 s)",
    ] {
        assert_eq!(wrong(page, &values).len(), 1, "{page}");
    }
}
