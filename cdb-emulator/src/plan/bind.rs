//! Binds a query to the definition of a container: computed properties, and the distance functions
//! of vectors.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::protocol::ServiceError;
use crate::sql::ast::{Expr, Projection, Select, Source};
use crate::sql::parse;
use crate::store::Policy;

/// Whether [`bind`] can change a query with this text. Most queries are shared as they were parsed.
pub(crate) fn needs_binding(text: &str, definition: &Value) -> bool {
    let computed = definition["computedProperties"].as_array();
    let text = text.to_ascii_lowercase();
    computed.is_some_and(|properties| !properties.is_empty())
        || ["vectordistance", "fulltext"]
            .iter()
            .any(|name| text.contains(name))
}

/// Replaces computed properties by their expressions and adds the distance functions of vectors.
pub(crate) fn bind(select: &mut Select, definition: &Value) -> Result<(), ServiceError> {
    if let Some(derived) = &mut select.derived {
        return bind(derived, definition);
    }
    set_directions(select, definition);
    let alias = select.alias.clone();
    let computed = computed(definition, &alias)?;
    if !computed.is_empty() {
        check_sort(
            select,
            &computed,
            &Policy::of(&definition["indexingPolicy"]),
        )?;
        visit(select, &mut |expr| {
            let property = property_of(expr, &alias).and_then(|name| computed.get(name));
            match property.cloned() {
                Some(property) => *expr = property,
                None => return true,
            }
            false
        });
    }
    visit(select, &mut |expr| {
        add_function(expr, &alias, definition);
        true
    });
    Ok(())
}

/// Sets the directions of a sort by vectors: the most similar vector comes first.
pub(crate) fn set_directions(select: &mut Select, definition: &Value) {
    let alias = select.alias.clone();
    for item in &mut select.order_by {
        if item.expr.is_vector_distance() {
            add_function(&mut item.expr, &alias, definition);
            item.descending = distance_function(&item.expr) != Some("euclidean");
            select.unindexed_sort = true;
        }
        // The part of a plan for full-text search.
        select.unindexed_sort |= item.expr.is_call("_FULLTEXTSCORE");
    }
}

/// Returns the expressions of computed properties over `alias`, by name.
fn computed(definition: &Value, alias: &str) -> Result<HashMap<String, Expr>, ServiceError> {
    let properties = definition["computedProperties"].as_array();
    let properties = properties.into_iter().flatten().map(|property| {
        let text = |name: &str| property[name].as_str().unwrap_or_default();
        let query = parse(text("query"))?;
        let Projection::Value(mut value) = query.projection else {
            return Err(invalid(text("name")));
        };
        let inner = query.alias;
        value.visit(&mut |expr| {
            if *expr == Expr::Name(inner.clone()) {
                *expr = Expr::Name(alias.to_owned());
            }
            true
        });
        Ok((text("name").to_owned(), value))
    });
    properties.collect()
}

/// Maximum number of computed properties of a container (computed-properties, "Constraints").
const MOST_COMPUTED: usize = 20;

/// Checks the computed properties of a definition.
pub(crate) fn check_computed(definition: &Value) -> Result<(), ServiceError> {
    let properties = definition["computedProperties"]
        .as_array()
        .map_or(0, Vec::len);
    if properties > MOST_COMPUTED {
        return Err(ServiceError::bad_request(format!(
            "The container has {properties} computed properties, {MOST_COMPUTED} are allowed."
        )));
    }
    for property in definition["computedProperties"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let name = property["name"].as_str().unwrap_or_default();
        let query = parse(property["query"].as_str().unwrap_or_default())?;
        let plain = Select {
            filter: None,
            projection: Projection::Star,
            ..query.clone()
        };
        let bare = parse(&format!("SELECT * FROM {}", query.alias));
        let reserved = ["id", "_rid", "_ts", "_etag", "_self", "_attachments"];
        let is_value = matches!(query.projection, Projection::Value(_)) && query.filter.is_none();
        if name.is_empty() || reserved.contains(&name) || !is_value || bare != Ok(plain) {
            return Err(invalid(name));
        }
    }
    computed(definition, "c").map(|_| ())
}

fn invalid(name: &str) -> ServiceError {
    ServiceError::bad_request(format!(
        "The computed property '{name}' is invalid: it needs a name that is no system property, and a query of the form \
         SELECT VALUE … FROM c."
    ))
}

/// Checks that an index serves a sort by computed properties: a path of its own for one, a composite
/// for several.
fn check_sort(
    select: &mut Select,
    computed: &HashMap<String, Expr>,
    policy: &Policy,
) -> Result<(), ServiceError> {
    let alias = &select.alias;
    let paths = select.order_by.iter().map(|item| {
        let name = property_of(&item.expr, alias).filter(|name| computed.contains_key(*name));
        let path = item.expr.path(alias).unwrap_or_default();
        (name.is_some(), (path, item.descending))
    });
    let (is_computed, paths): (Vec<bool>, Vec<(String, bool)>) = paths.unzip();
    if !is_computed.contains(&true) {
        return Ok(());
    }
    match &*paths {
        [(path, _)] if !policy.has_range_index(path) => {
            return Err(ServiceError::bad_request(
                "The order-by item requires a range index to be defined on the corresponding index path.",
            ));
        }
        several if several.len() > 1 && !policy.has_composite(several) => {
            return Err(ServiceError::bad_request(
                "The order by query does not have a corresponding composite index that it can be served from.",
            ));
        }
        _ => {}
    }
    select.unindexed_sort = true;
    Ok(())
}

/// Returns the name of a top-level property of `alias`.
fn property_of<'e>(expr: &'e Expr, alias: &str) -> Option<&'e str> {
    match expr {
        Expr::Member(of, key) if **of == Expr::Name(alias.to_owned()) => match &**key {
            Expr::Literal(Value::String(name)) => Some(name),
            _ => None,
        },
        _ => None,
    }
}

/// Adds the distance function of the container's policy to a call of `VectorDistance` without one.
fn add_function(expr: &mut Expr, alias: &str, definition: &Value) {
    let Expr::Call(function, arguments) = expr else {
        return;
    };
    if function.name != "VECTORDISTANCE" || arguments.len() > 3 {
        return;
    }
    let embeddings = definition["vectorEmbeddingPolicy"]["vectorEmbeddings"].as_array();
    let mut embeddings = embeddings.into_iter().flatten();
    let path = arguments.iter().find_map(|argument| argument.path(alias));
    let known = embeddings.find(|embedding| embedding["path"].as_str() == path.as_deref());
    let Some(name) = known.and_then(|known| known["distanceFunction"].as_str()) else {
        return;
    };
    arguments.resize(3, Expr::Literal(false.into()));
    arguments.push(Expr::Literal(json!({ "distanceFunction": name })));
}

/// Returns the distance function that a call of `VectorDistance` names.
fn distance_function(expr: &Expr) -> Option<&str> {
    let Expr::Call(_, arguments) = expr else {
        return None;
    };
    match arguments.get(3)? {
        Expr::Literal(options) => options["distanceFunction"].as_str(),
        Expr::Object(fields) => fields.iter().find_map(|(name, value)| match value {
            Expr::Literal(Value::String(function)) if name == "distanceFunction" => {
                Some(&**function)
            }
            _ => None,
        }),
        _ => None,
    }
}

/// Visits all expressions of a query and of its sub-queries, the outer ones first. `change` returns
/// whether the parts of the expression are visited too.
fn visit(select: &mut Select, change: &mut dyn FnMut(&mut Expr) -> bool) {
    match &mut select.projection {
        Projection::Star => {}
        Projection::Value(value) => value.visit(change),
        Projection::List(fields) => fields.iter_mut().for_each(|(_, value)| value.visit(change)),
    }
    for join in &mut select.joins {
        match &mut join.source {
            Source::Value(of) | Source::Elements(of) => of.visit(change),
            Source::Rows(inner) | Source::ElementsOfRows(inner) => visit(inner, change),
        }
    }
    let sort = select.order_by.iter_mut().map(|item| &mut item.expr);
    for expr in select
        .filter
        .iter_mut()
        .chain(&mut select.group_by)
        .chain(sort)
    {
        expr.visit(change);
    }
}

impl Expr {
    /// Returns whether this is a call of `VectorDistance`.
    pub(crate) fn is_vector_distance(&self) -> bool {
        self.is_call("VECTORDISTANCE")
    }

    /// Returns whether this is a call of the function with this name in upper case.
    pub(crate) fn is_call(&self, name: &str) -> bool {
        matches!(self, Self::Call(function, _) if function.name == name)
    }

    /// Visits this expression and then its parts.
    fn visit(&mut self, change: &mut dyn FnMut(&mut Self) -> bool) {
        if !change(self) {
            return;
        }
        match self {
            Self::Literal(_) | Self::Undefined | Self::Parameter(_) | Self::Name(_) => {}
            Self::Unary(_, a) | Self::Aggregate(_, a) => a.visit(change),
            Self::Member(a, b) | Self::Binary(a, _, b) | Self::Like(a, b, _) => {
                a.visit(change);
                b.visit(change);
            }
            Self::Between(a, b, c) | Self::Conditional(a, b, c) => {
                for part in [a, b, c] {
                    part.visit(change);
                }
            }
            Self::In(a, list) => {
                a.visit(change);
                for item in Arc::make_mut(list) {
                    item.visit(change);
                }
            }
            Self::Call(_, items) | Self::Array(items) => {
                for item in items {
                    item.visit(change);
                }
            }
            Self::Object(fields) => fields.iter_mut().for_each(|(_, value)| value.visit(change)),
            Self::Exists(inner)
            | Self::Collect(inner)
            | Self::Scalar(inner)
            | Self::Pick(_, inner) => {
                visit(inner, change);
            }
        }
    }
}
