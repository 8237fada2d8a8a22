//! Draws queries: filters over every type, projections, sorts, cuts and folds.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

use crate::generate::scalar;
use crate::operation::{Key, Operation, Query};

/// Queries that are rewritten for their evaluator, because it interprets ours differently, with the
/// source that supports ours. The rewritten form is the source's definition, so the answers are
/// still compared.
pub(crate) const ASKED_OTHERWISE: [(&str, &str); 6] = [
    (
        "brackets in LIKE",
        "the reference's LIKE: one character of a set; theirs takes them as they are",
    ),
    (
        "equality of two types",
        "azure-cosmos-dotnet-v3, ScalarExpressionEvaluator: false, where theirs says undefined",
    ),
    (
        "BETWEEN bounds of another type",
        "azure-cosmos-dotnet-v3, ScalarExpressionEvaluator: two comparisons and an AND, where theirs says false",
    ),
    (
        "IN of what is undefined",
        "azure-cosmos-dotnet-v3, ScalarExpressionEvaluator: undefined, where theirs says false",
    ),
    (
        "a condition that is no boolean",
        "azure-cosmos-dotnet-v3, ScalarExpressionEvaluator: `?:` takes what follows the colon, where theirs says undefined",
    ),
    (
        "a property in double quotes",
        "quoted property operator: `c[\"n\"]` is `c.n`, where theirs reads an alias `n`",
    ),
];

/// The SQL for our emulator and for theirs.
#[derive(Clone, Debug)]
pub(crate) struct Sql {
    pub(crate) ours: String,
    pub(crate) theirs: String,
}

impl Sql {
    fn same(text: impl Into<String>) -> Self {
        let ours = text.into();
        let theirs = ours.clone();
        Self { ours, theirs }
    }

    /// Joins parts in both forms.
    fn of<const N: usize>(parts: &[Self; N], write: impl Fn([&str; N]) -> String) -> Self {
        Self {
            ours: write(parts.each_ref().map(|part| &*part.ours)),
            theirs: write(parts.each_ref().map(|part| &*part.theirs)),
        }
    }
}

const PATHS: [&str; 12] = [
    "c.n",
    "c.s",
    "c.v",
    "c.v.e",
    "c.d.e",
    "c.d",
    "c[\"n\"]",
    "c.tags",
    "c.tags[0]",
    "c.id",
    "c.missing",
    "c.u",
];

fn path() -> BoxedStrategy<Sql> {
    select(PATHS.to_vec())
        .prop_map(|path| Sql {
            ours: path.to_owned(),
            theirs: path.replace("[\"n\"]", ".n"),
        })
        .boxed()
}

fn literal() -> BoxedStrategy<Sql> {
    prop_oneof![
        8 => scalar().prop_map(|value| Sql::same(literal_text(&value))),
        1 => Just(Sql::same("undefined")),
        1 => Just(Sql::same("@p")),
    ]
    .boxed()
}

/// A value as SQL spells it.
fn literal_text(value: &Value) -> String {
    match value {
        Value::String(text) => format!("'{text}'"),
        other => other.to_string(),
    }
}

fn operand() -> BoxedStrategy<Sql> {
    let leaf = prop_oneof![4 => path(), 2 => literal()];
    leaf.prop_recursive(2, 6, 2, |inner| {
        let two = || (inner.clone(), inner.clone()).prop_map(|(left, right)| [left, right]);
        let name = select(vec!["LENGTH", "UPPER", "LOWER", "ABS", "ARRAY_LENGTH"]);
        prop_oneof![
            3 => (two(), select(vec!["+", "-", "*", "%"])).prop_map(|(two, operator)| {
                Sql::of(&two, |[left, right]| format!("({left} {operator} {right})"))
            }),
            2 => (name, inner.clone()).prop_map(|(name, inner)| Sql::of(&[inner], |[inner]| format!("{name}({inner})"))),
            1 => two().prop_map(|two| Sql::of(&two, |[left, right]| format!("({left} ?? {right})"))),
            // With a space: two signs in a row begin a comment.
            1 => inner.clone().prop_map(|inner| Sql::of(&[inner], |[inner]| format!("(- {inner})"))),
            1 => two().prop_map(|two| Sql::of(&two, |[left, right]| format!("CONCAT({left}, {right})"))),
        ]
        .boxed()
    })
    .boxed()
}

fn simple_comparison() -> BoxedStrategy<Sql> {
    let kinds = select(vec![
        "IS_DEFINED",
        "IS_NULL",
        "IS_BOOL",
        "IS_NUMBER",
        "IS_STRING",
        "IS_ARRAY",
        "IS_OBJECT",
    ]);
    let texts = select(vec!["STARTSWITH", "ENDSWITH", "CONTAINS", "ARRAY_CONTAINS"]);
    let patterns = select(vec!["a%", "%b", "_", "%", "é"]);
    prop_oneof![
        3 => (operand(), select(vec!["<", "<=", ">", ">="]), operand()).prop_map(|(left, operator, right)| {
            Sql::of(&[left, right], |[left, right]| format!("{left} {operator} {right}"))
        }),
        3 => (operand(), select(vec!["=", "!=", "<>"]), operand())
            .prop_map(|(left, operator, right)| equality([left, right], operator)),
        2 => (kinds, path()).prop_map(|(name, path)| Sql::of(&[path], |[path]| format!("{name}({path})"))),
        2 => (texts, path(), literal()).prop_map(|(name, path, value)| {
            Sql::of(&[path, value], |[path, value]| format!("{name}({path}, {value})"))
        }),
        1 => (path(), patterns).prop_map(|(path, pattern)| Sql::of(&[path], |[path]| format!("{path} LIKE '{pattern}'"))),
        1 => path().prop_map(|path| Sql {
            ours: format!("{} LIKE 'a[%]b%'", path.ours),
            theirs: format!("STARTSWITH({}, 'a%b')", path.theirs),
        }),
        1 => (path(), literal(), literal()).prop_map(|(path, low, high)| Sql {
            ours: format!("{} BETWEEN {} AND {}", path.ours, low.ours, high.ours),
            theirs: format!("({0} >= {1} AND {0} <= {2})", path.theirs, low.theirs, high.theirs),
        }),
        1 => path(),
    ]
    .boxed()
}

fn comparison() -> BoxedStrategy<Sql> {
    let list = prop::collection::vec(literal(), 1..4);
    let member = (path(), list).prop_map(|(path, list)| {
        let list: Vec<String> = list.into_iter().map(|value| value.ours).collect();
        let list = list.join(", ");
        Sql {
            ours: format!("{} IN ({list})", path.ours),
            theirs: format!(
                "(IS_DEFINED({0}) ? {0} IN ({list}) : undefined)",
                path.theirs
            ),
        }
    });
    prop_oneof![6 => simple_comparison(), 1 => member].boxed()
}

/// `left = right`, or its opposite.
fn equality([left, right]: [Sql; 2], operator: &str) -> Sql {
    let (one, other) = (&left.theirs, &right.theirs);
    let both = format!("IS_DEFINED({one}) AND IS_DEFINED({other})");
    let of_two_types = operator != "=";
    Sql {
        ours: format!("{} {operator} {}", left.ours, right.ours),
        theirs: format!("(({both}) ? (({one} {operator} {other}) ?? {of_two_types}) : undefined)"),
    }
}

/// `test ? yes : no`.
fn conditional([test, yes, no]: [Sql; 3]) -> Sql {
    Sql {
        ours: format!("({} ? {} : {})", test.ours, yes.ours, no.ours),
        theirs: format!(
            "(((({}) = true) ?? false) ? {} : {})",
            test.theirs, yes.theirs, no.theirs
        ),
    }
}

/// Conditions.
pub(crate) fn filter() -> BoxedStrategy<Sql> {
    comparison()
        .prop_recursive(3, 8, 2, |inner| {
            let two = (inner.clone(), select(vec!["AND", "OR"]), inner.clone());
            prop_oneof![
                4 => two.prop_map(|(left, operator, right)| {
                    Sql::of(&[left, right], |[left, right]| format!("({left} {operator} {right})"))
                }),
                1 => inner.clone().prop_map(|inner| Sql::of(&[inner], |[inner]| format!("NOT ({inner})"))),
                1 => (comparison(), comparison(), comparison())
                    .prop_map(|(test, yes, no)| conditional([test, yes, no])),
            ]
            .boxed()
        })
        .boxed()
}

/// A query but for its condition.
#[derive(Clone, Debug)]
struct Frame {
    head: Sql,
    tail: String,
    sorted_by: Option<&'static str>,
    cut: bool,
}

impl Frame {
    fn unsorted(head: Sql, tail: impl Into<String>) -> Self {
        Self {
            head,
            tail: tail.into(),
            sorted_by: None,
            cut: false,
        }
    }
}

fn plain() -> BoxedStrategy<Frame> {
    let made = "c.id, c.d.e AS inner, {\"s\": c.s, \"both\": [c.n, c.v]} AS made";
    let heads = prop_oneof![
        4 => select(vec!["*", "*", "c.id, c.n, c.v", made]).prop_map(Sql::same),
        2 => operand().prop_map(|operand| Sql::of(&[operand], |[operand]| format!("VALUE {operand}"))),
        1 => comparison().prop_map(|test| Sql::of(&[test], |[test]| format!("c.id, ({test}) AS test"))),
    ];
    heads
        .prop_map(|head| {
            Frame::unsorted(
                Sql::of(&[head], |[head]| format!("SELECT {head} FROM c")),
                "",
            )
        })
        .boxed()
}

fn sorted() -> BoxedStrategy<Frame> {
    let keys = select(vec!["n", "s", "id", "v", "u"]);
    let direction = select(vec!["", " ASC", " DESC"]);
    let cut = prop_oneof![
        3 => Just((String::new(), String::new())),
        1 => (0..5).prop_map(|n| (format!("TOP {n} "), String::new())),
        1 => (0..4, 0..4).prop_map(|(offset, limit)| (String::new(), format!(" OFFSET {offset} LIMIT {limit}"))),
    ];
    (keys, direction, cut)
        .prop_map(|(key, direction, (top, limit))| Frame {
            cut: !top.is_empty() || !limit.is_empty(),
            head: Sql::same(format!("SELECT {top}c.id, c.{key} FROM c")),
            tail: format!(" ORDER BY c.{key}{direction}{limit}"),
            sorted_by: Some(key),
        })
        .boxed()
}

/// Aggregates over properties that no patch changes: numbers, text or missing. Theirs skips values
/// that it cannot fold, where ours is undefined as Microsoft's offline engine is.
fn folded() -> BoxedStrategy<Frame> {
    let scalars = select(vec!["c.u", "c.id", "c.missing"]);
    let extremes = (select(vec!["MIN", "MAX"]), scalars);
    let sums = (
        select(vec!["SUM", "AVG"]),
        select(vec!["c.u", "c.id", "c.missing"]),
    );
    let value = prop_oneof![extremes, sums]
        .prop_map(|(fold, path)| Sql::same(format!("SELECT VALUE {fold}({path}) FROM c")));
    let of = |before: &'static str, after: &'static str| {
        path().prop_map(move |path| {
            Sql::of(&[path], |[path]| {
                format!("SELECT {before}{path}{after} FROM c")
            })
        })
    };
    let several = "SELECT COUNT(1) AS count, MAX(c.u) AS most, MIN(c.id) AS first FROM c";
    let heads = prop_oneof![
        3 => select(vec!["SELECT VALUE COUNT(1) FROM c", several]).prop_map(Sql::same),
        4 => value,
        1 => of("VALUE COUNT(", ")"),
        1 => of("DISTINCT VALUE ", ""),
    ];
    let folded = heads.prop_map(|head| Frame::unsorted(head, ""));
    let grouped = select(vec!["c.n", "c.s", "c.u", "c.v", "c.d.e"]).prop_map(|path| {
        let head = format!("SELECT {path} AS key, COUNT(1) AS count, MAX(c.u) AS most FROM c");
        Frame::unsorted(Sql::same(head), format!(" GROUP BY {path}"))
    });
    prop_oneof![2 => folded, 1 => grouped].boxed()
}

fn joined() -> BoxedStrategy<Frame> {
    let heads = [
        "SELECT c.id, t FROM c JOIN t IN c.tags",
        "SELECT VALUE t FROM c JOIN t IN c.tags",
    ];
    select(heads.to_vec())
        .prop_map(|head| Frame::unsorted(Sql::same(head), ""))
        .boxed()
}

/// Queries, nearly all of them in one partition.
pub(crate) fn query(keys: &BoxedStrategy<Key>) -> BoxedStrategy<Operation> {
    let frame = prop_oneof![4 => plain(), 3 => sorted(), 2 => folded(), 1 => joined()];
    let scope = prop::option::weighted(0.95, keys.clone());
    let page = prop::option::weighted(0.3, 1..6_usize);
    (
        frame,
        prop::option::weighted(0.8, filter()),
        scalar(),
        scope,
        page,
    )
        .prop_map(|(frame, filter, value, key, page)| {
            let filter = filter.map_or(Sql::same(""), |filter| {
                Sql::of(&[filter], |[filter]| format!(" WHERE {filter}"))
            });
            let tail = frame.tail;
            let text = Sql::of(&[frame.head, filter], |[head, filter]| {
                format!("{head}{filter}{tail}")
            });
            let named = text.ours.contains("@p");
            Operation::Query(Query {
                text,
                parameters: if named {
                    vec![("@p", value)]
                } else {
                    Vec::new()
                },
                key,
                sorted_by: frame.sorted_by,
                cut: frame.cut,
                page,
            })
        })
        .boxed()
}
