//! Time of the small steps of the hot path: `cargo bench --manifest-path bench/Cargo.toml`.

use cdb_bench::micro::steps;
use criterion::{Criterion, criterion_group, criterion_main};

fn all(criterion: &mut Criterion) {
    for step in steps() {
        criterion.bench_function(step.name, |bencher| bencher.iter(|| step.run()));
    }
}

criterion_group!(micro, all);
criterion_main!(micro);
