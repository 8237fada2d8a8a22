//! The service's limits for a container.
//!
//! Equal declarations of several types are one entry of the policy (see [`crate::policy`]) and
//! count once. To save work in constant evaluation, all pairs are compared only if the plain count
//! exceeds a limit.

use super::text::{decimal, fail, same};
use crate::limits::{MAX_COMPOSITES, MAX_COMPUTED_PROPERTIES, MAX_POLICY_PATHS, MAX_UNIQUE_KEYS};
use crate::shape::{
    CompositeShape, CompositeTarget, Direction, DocumentShape, FieldIndexing, FieldShape,
};

/// The document types of a container.
type Documents<'a> = &'a [&'static DocumentShape];

/// Checks that the container stays within the service's limits.
#[track_caller]
pub const fn check_limits(container: &str, documents: &[&'static DocumentShape]) {
    let (mut included, mut excluded, mut composites, mut uniques) = (0, 0, 0, 0);
    let mut computed = 0;
    let mut at = 0;
    while at < documents.len() {
        composites += documents[at].composites.len();
        uniques += documents[at].unique_keys.len();
        computed += documents[at].computed.len();
        let mut field = 0;
        while field < documents[at].fields.len() {
            match documents[at].fields[field].indexing {
                FieldIndexing::Indexed => included += 1,
                FieldIndexing::Excluded => excluded += 1,
                FieldIndexing::NotIndexed => {}
            }
            field += 1;
        }
        at += 1;
    }
    // Each list has one path in addition to those of the documents: the discriminator or the root.
    if included >= MAX_POLICY_PATHS {
        let found = 1 + distinct_paths(documents, true);
        check_limit(container, "included paths", found, MAX_POLICY_PATHS);
    }
    if excluded >= MAX_POLICY_PATHS {
        let found = 1 + distinct_paths(documents, false);
        check_limit(container, "excluded paths", found, MAX_POLICY_PATHS);
    }
    if composites > MAX_COMPOSITES {
        check_limit(
            container,
            "composite indexes",
            distinct_composites(documents),
            MAX_COMPOSITES,
        );
    }
    if uniques > MAX_UNIQUE_KEYS {
        check_limit(
            container,
            "unique keys",
            distinct_uniques(documents),
            MAX_UNIQUE_KEYS,
        );
    }
    if computed > MAX_COMPUTED_PROPERTIES {
        check_limit(
            container,
            "computed properties",
            distinct_computed(documents),
            MAX_COMPUTED_PROPERTIES,
        );
    }
}

#[track_caller]
const fn check_limit(container: &str, what: &str, found: usize, limit: usize) {
    if found > limit {
        let (mut found_digits, mut limit_digits) = ([0; 20], [0; 20]);
        fail(&[
            "`",
            container,
            "` has ",
            decimal(found, &mut found_digits),
            " ",
            what,
            ", the service allows ",
            decimal(limit, &mut limit_digits),
        ]);
    }
}

const fn distinct_composites(documents: Documents<'_>) -> usize {
    let mut count = 0;
    let mut document = 0;
    while document < documents.len() {
        let mut at = 0;
        while at < documents[document].composites.len() {
            if !has_composite_before(documents, document, at) {
                count += 1;
            }
            at += 1;
        }
        document += 1;
    }
    count
}

const fn has_composite_before(documents: Documents<'_>, document: usize, at: usize) -> bool {
    let own = &documents[document].composites[at];
    let mut other = 0;
    while other <= document {
        let composites = documents[other].composites;
        let end = if other == document {
            at
        } else {
            composites.len()
        };
        let mut index = 0;
        while index < end {
            if serve_the_same(&composites[index], own) {
                return true;
            }
            index += 1;
        }
        other += 1;
    }
    false
}

/// Whether both composites serve the same sorts: a composite also serves its reverse.
const fn serve_the_same(a: &CompositeShape, b: &CompositeShape) -> bool {
    if a.paths.len() != b.paths.len() {
        return false;
    }
    let (mut equal, mut reversed) = (true, true);
    let mut at = 0;
    while at < a.paths.len() {
        let same_target = match (a.paths[at].path, b.paths[at].path) {
            (CompositeTarget::Discriminator, CompositeTarget::Discriminator) => true,
            (CompositeTarget::Path(a), CompositeTarget::Path(b)) => same(a, b),
            _ => false,
        };
        let same_direction = matches!(
            (a.paths[at].direction, b.paths[at].direction),
            (Direction::Ascending, Direction::Ascending)
                | (Direction::Descending, Direction::Descending)
        );
        equal = equal && same_target && same_direction;
        reversed = reversed && same_target && !same_direction;
        at += 1;
    }
    equal || reversed
}

const fn distinct_uniques(documents: Documents<'_>) -> usize {
    let mut count = 0;
    let mut document = 0;
    while document < documents.len() {
        let mut at = 0;
        while at < documents[document].unique_keys.len() {
            if !has_unique_before(documents, document, at) {
                count += 1;
            }
            at += 1;
        }
        document += 1;
    }
    count
}

const fn has_unique_before(documents: Documents<'_>, document: usize, at: usize) -> bool {
    let own = documents[document].unique_keys[at];
    let mut other = 0;
    while other <= document {
        let uniques = documents[other].unique_keys;
        let end = if other == document { at } else { uniques.len() };
        let mut index = 0;
        while index < end {
            if super::text::same_all(uniques[index], own) {
                return true;
            }
            index += 1;
        }
        other += 1;
    }
    false
}

const fn distinct_computed(documents: Documents<'_>) -> usize {
    let mut count = 0;
    let mut document = 0;
    while document < documents.len() {
        let mut at = 0;
        while at < documents[document].computed.len() {
            let name = documents[document].computed[at].name;
            let mut other = 0;
            while other < document && super::computed_as(name, documents[other]).is_none() {
                other += 1;
            }
            if other == document {
                count += 1;
            }
            at += 1;
        }
        document += 1;
    }
    count
}

const fn distinct_paths(documents: Documents<'_>, included: bool) -> usize {
    let mut count = 0;
    let mut document = 0;
    while document < documents.len() {
        let mut at = 0;
        while at < documents[document].fields.len() {
            let field = &documents[document].fields[at];
            if counts(field, included) && !has_path_before(documents, document, field, included) {
                count += 1;
            }
            at += 1;
        }
        document += 1;
    }
    count
}

const fn counts(field: &FieldShape, included: bool) -> bool {
    match field.indexing {
        FieldIndexing::Indexed => included,
        FieldIndexing::Excluded => !included,
        FieldIndexing::NotIndexed => false,
    }
}

/// Whether a type before `document` has the path. A document type never has a path twice.
const fn has_path_before(
    documents: Documents<'_>,
    document: usize,
    own: &FieldShape,
    included: bool,
) -> bool {
    let mut other = 0;
    while other < document {
        let mut at = 0;
        while at < documents[other].fields.len() {
            let field = &documents[other].fields[at];
            if counts(field, included) && same(field.path, own.path) {
                return true;
            }
            at += 1;
        }
        other += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::CompositePath;

    const fn composite(path: &'static [CompositePath]) -> CompositeShape {
        CompositeShape {
            name: "BY",
            paths: path,
        }
    }

    const fn step(path: &'static str, direction: Direction) -> CompositePath {
        CompositePath {
            path: CompositeTarget::Path(path),
            direction,
        }
    }

    const UP_DOWN: &[CompositePath] = &[
        step("/a", Direction::Ascending),
        step("/b", Direction::Descending),
    ];
    const DOWN_UP: &[CompositePath] = &[
        step("/a", Direction::Descending),
        step("/b", Direction::Ascending),
    ];
    const UP_UP: &[CompositePath] = &[
        step("/a", Direction::Ascending),
        step("/b", Direction::Ascending),
    ];

    const ONE: DocumentShape = DocumentShape {
        name: "One",
        discriminator: "one",
        id: &[],
        partition_key: &["/p"],
        fields: &[
            FieldShape {
                name: "a",
                path: "/a",
                indexing: FieldIndexing::Indexed,
                optional: false,
            },
            FieldShape {
                name: "b",
                path: "/b",
                indexing: FieldIndexing::Excluded,
                optional: false,
            },
            FieldShape {
                name: "c",
                path: "/c",
                indexing: FieldIndexing::NotIndexed,
                optional: false,
            },
        ],
        composites: &[composite(UP_DOWN), composite(UP_UP)],
        unique_keys: &[&["/a"], &["/a", "/b"]],
        ttl: false,
        version: None,
        upcasts: &[],
        soft_delete: None,
        created_at: None,
        updated_at: None,
        computed: &[],
        vectors: &[],
        full_texts: &[],
    };
    const TWO: DocumentShape = DocumentShape {
        fields: &[
            FieldShape {
                name: "a",
                path: "/a",
                indexing: FieldIndexing::Indexed,
                optional: false,
            },
            FieldShape {
                name: "d",
                path: "/d",
                indexing: FieldIndexing::Indexed,
                optional: false,
            },
        ],
        composites: &[composite(DOWN_UP)],
        unique_keys: &[&["/a"], &["/b", "/a"]],
        ..ONE
    };

    #[test]
    fn equal_declarations_of_two_types_count_once() {
        let documents: Documents<'_> = &[&ONE, &TWO];
        assert_eq!(distinct_paths(documents, true), 2);
        assert_eq!(distinct_paths(documents, false), 1);
        assert_eq!(distinct_composites(documents), 2);
        assert_eq!(distinct_uniques(documents), 3);
    }

    #[test]
    fn the_message_names_the_exceeded_limit() {
        let panic =
            std::panic::catch_unwind(|| check_limit("Shop", "unique keys", 11, MAX_UNIQUE_KEYS));
        let message = panic.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(*message, "`Shop` has 11 unique keys, the service allows 10");
    }
}
