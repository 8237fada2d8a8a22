//! Finds a small part of the faults of a run that still fails.

use std::time::{Duration, Instant};

/// The time to look for a smaller part.
const PATIENCE: Duration = Duration::from_secs(300);

/// Leaves out ever smaller parts of `count` faults, and keeps each part left out if the run still
/// fails (delta debugging). Returns the faults left out, and the last failure; `None` if no fault
/// can be left out.
pub(crate) fn shrink<T>(
    count: usize,
    mut fails_without: impl FnMut(&[usize]) -> Option<T>,
) -> Option<(Vec<usize>, T)> {
    let began = Instant::now();
    let mut needed: Vec<usize> = (0..count).collect();
    let mut found = None;
    let mut size = count.div_ceil(2);
    while size > 0 && !needed.is_empty() && began.elapsed() < PATIENCE {
        let mut start = 0;
        while start < needed.len() && began.elapsed() < PATIENCE {
            let end = (start + size).min(needed.len());
            let kept: Vec<usize> = needed[..start]
                .iter()
                .chain(&needed[end..])
                .copied()
                .collect();
            let without: Vec<usize> = (0..count).filter(|it| !kept.contains(it)).collect();
            match fails_without(&without) {
                Some(failure) => {
                    needed = kept;
                    found = Some((without, failure));
                }
                None => start = end,
            }
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faults_that_a_failure_needs_remain() {
        let mut runs = 0;
        let shrunk = shrink(40, |without| {
            runs += 1;
            [7, 8, 31]
                .iter()
                .all(|needed| !without.contains(needed))
                .then_some(())
        });
        let (without, ()) = shrunk.expect("most faults can be left out");
        let needed: Vec<usize> = (0..40).filter(|it| !without.contains(it)).collect();
        assert_eq!(needed, [7, 8, 31]);
        assert!(runs < 60, "{runs} runs");
    }

    #[test]
    fn a_failure_that_needs_every_fault_is_not_shrunk() {
        assert!(shrink(5, |without| without.is_empty().then_some(())).is_none());
    }
}
