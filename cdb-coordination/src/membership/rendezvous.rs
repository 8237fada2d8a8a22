//! Rendezvous hashing: which member serves which slot, computed without communication.
//!
//! Every member has a weight per slot, a hash of both names. The member with the largest
//! weight serves the slot (Thaler and Ravishankar, "Using name-based mappings to increase hit
//! rates", 1998). Processes that know the same members compute the same division. A member that
//! leaves moves only its own slots, and a new member takes about its share from all others. Members
//! of different versions must agree, so the hash never changes.

/// Returns the member that serves `slot`, `None` without members. The order of `members` does not
/// matter.
///
/// ```
/// use cdb_coordination::membership::{SlotSet, owner_of_slot};
///
/// let members = ["one", "two", "three"];
/// let owner = owner_of_slot(&members, 7).expect("there are members");
/// assert!(SlotSet::of_member(&members, owner).contains(7)); // computed by that member
/// ```
pub fn owner_of_slot<M: AsRef<str>>(members: &[M], slot: u32) -> Option<&M> {
    let rank = |member: &M| weight(name_hash(member.as_ref()), slot);
    members.iter().max_by(|one, other| {
        let by_name = one.as_ref().cmp(other.as_ref());
        rank(one).cmp(&rank(other)).then(by_name)
    })
}

/// Returns the slots below `count` that `member` serves, in ascending order; none if `member` is
/// not in `members`.
pub(crate) fn slots_of_member<'a, M: AsRef<str>>(
    members: &[M],
    member: &'a str,
    count: u32,
) -> impl Iterator<Item = u32> + use<'a, M> {
    let rivals: Vec<(u64, bool)> = members
        .iter()
        .map(AsRef::as_ref)
        .filter(|&rival| rival != member)
        // Names decide between equal weights.
        .map(|rival| (name_hash(rival), rival > member))
        .collect();
    let own = name_hash(member);
    let is_member = members.iter().any(|known| known.as_ref() == member);
    (0..if is_member { count } else { 0 }).filter(move |&slot| {
        let mine = weight(own, slot);
        rivals
            .iter()
            .all(|&(rival, wins_ties)| (weight(rival, slot), wins_ties) < (mine, true))
    })
}

/// Returns the parts below `count` that `member` serves when the parts are divided evenly, in
/// ascending order; none if `member` is not in `members`.
pub(crate) fn balanced_parts<M: AsRef<str>>(members: &[M], member: &str, count: u32) -> Vec<u32> {
    let division = balanced_division(members, count);
    let parts = (0..count).zip(division);
    parts
        .filter(|(_, owner)| *owner == member)
        .map(|(part, _)| part)
        .collect()
}

/// Returns the member that serves each part below `count`; nothing without members.
///
/// Every member serves `count / members` parts, rounded down or up. The largest weight of all pairs
/// of a member and a part is assigned first, then the next largest, and so on; full members and
/// assigned parts are skipped. A member that joins or leaves moves little more than its own parts.
/// Takes time and memory in proportion to the number of pairs.
fn balanced_division<M: AsRef<str>>(members: &[M], count: u32) -> Vec<&str> {
    let mut names: Vec<&str> = members.iter().map(AsRef::as_ref).collect();
    names.sort_unstable();
    names.dedup();
    let Ok(of @ 1..) = u32::try_from(names.len()) else {
        return Vec::new();
    };
    let pairs = names.iter().enumerate().flat_map(|(index, name)| {
        let hash = name_hash(name);
        (0..count).map(move |part| (weight(hash, part), index, part))
    });
    let mut pairs: Vec<(u64, usize, u32)> = pairs.collect();
    pairs.sort_unstable();
    let (least, mut larger_shares) = (count / of, count % of);
    let mut sizes = vec![0; names.len()];
    let mut division = vec![None; count as usize];
    for (_, index, part) in pairs.into_iter().rev() {
        let takes_rest = sizes[index] == least && larger_shares > 0;
        if division[part as usize].is_none() && (sizes[index] < least || takes_rest) {
            division[part as usize] = Some(names[index]);
            sizes[index] += 1;
            larger_shares -= u32::from(takes_rest);
        }
    }
    division.into_iter().flatten().collect()
}

/// The FNV-1a hash of a name, 64 bits. The same in all versions.
pub fn name_hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The finalizer of splitmix64. FNV alone assigns neighbouring slots to the same member.
fn weight(name: u64, slot: u32) -> u64 {
    let mut mixed = name ^ (u64::from(slot) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: u32 = 256;

    fn members(count: usize) -> Vec<String> {
        (0..count)
            .map(|n| format!("host-{}:{n}", n * 7919))
            .collect()
    }

    fn division(members: &[String]) -> Vec<&String> {
        (0..SLOTS)
            .map(|slot| owner_of_slot(members, slot).expect("there are members"))
            .collect()
    }

    #[test]
    fn every_slot_has_one_owner_and_both_functions_agree() {
        for count in 1..=9 {
            let members = members(count);
            let division = division(&members);
            for member in &members {
                let own: Vec<u32> = slots_of_member(&members, member, SLOTS).collect();
                let as_divided: Vec<u32> = (0..SLOTS)
                    .filter(|&slot| division[slot as usize] == member)
                    .collect();
                assert_eq!(own, as_divided);
            }
        }
        assert_eq!(owner_of_slot::<String>(&[], 3), None);
        assert_eq!(slots_of_member(&members(3), "stranger", SLOTS).count(), 0);
    }

    #[test]
    fn a_member_that_joins_moves_only_its_own_share() {
        for count in 1_usize..=16 {
            let after = members(count + 1);
            let (newest, before) = after.split_last().expect("there is one");
            let moved: Vec<_> = division(before)
                .into_iter()
                .zip(division(&after))
                .filter(|(was, is)| was != is)
                .collect();
            assert!(moved.iter().all(|(_, is)| *is == newest));
            // A share is binomially distributed: the mean plus four standard deviations.
            let share = 1.0 / f64::from(u32::try_from(count + 1).expect("few"));
            let mean = f64::from(SLOTS) * share;
            let most = mean + 4.0 * (mean * (1.0 - share)).sqrt();
            let moved = f64::from(u32::try_from(moved.len()).expect("few"));
            assert!(moved > 0.0 && moved <= most, "{moved} of {mean}");
        }
    }

    const COUNTS: [u32; 9] = [1, 2, 7, 32, 33, 64, 100, 256, 1000];

    #[test]
    fn balanced_shares_differ_by_at_most_one_part() {
        for of in 1_u32..=64 {
            let members = members(of as usize);
            for count in COUNTS {
                let division = balanced_division(&members, count);
                assert_eq!(division.len(), count as usize);
                for member in &members {
                    let size = division.iter().filter(|owner| *owner == member).count();
                    let even = count / of..=count.div_ceil(of);
                    assert!(
                        even.contains(&u32::try_from(size).expect("few")),
                        "{size} of {count} / {of}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_member_that_joins_moves_little_more_than_its_balanced_share() {
        let (mut all_moved, mut all_shares) = (0, 0);
        for count in COUNTS {
            let after = members(64);
            let mut before = balanced_division(&after[..1], count);
            for of in 2..=64 {
                let division = balanced_division(&after[..of], count);
                let moved = before.iter().zip(&division);
                let moved = moved.filter(|(was, is)| was != is).count();
                let share = (count as usize).div_ceil(of);
                assert!(moved <= 4 * share + 4, "{moved} of {count} to member {of}");
                before = division;
                all_moved += moved;
                all_shares += share;
            }
        }
        assert!(
            2 * all_moved <= 3 * all_shares,
            "{all_moved} of {all_shares}"
        );
    }

    #[test]
    fn balanced_shares_are_the_same_in_all_versions_and_orders() {
        let members = ["c", "a", "b"];
        assert_eq!(balanced_parts(&members, "a", 12), STORED_SHARE);
        assert!(balanced_parts(&members, "stranger", 12).is_empty());
        let reversed = ["b", "a", "c"];
        assert_eq!(balanced_parts(&reversed, "a", 12), STORED_SHARE);
    }

    /// The share of `a`. Members of different versions must compute the same one.
    const STORED_SHARE: [u32; 4] = [2, 3, 5, 11];

    #[test]
    fn the_division_does_not_depend_on_the_order_of_the_members() {
        let mut members = members(5);
        let before: Vec<String> = division(&members).into_iter().cloned().collect();
        members.reverse();
        assert!(before.iter().eq(division(&members)));
    }

    #[test]
    fn the_division_is_the_same_in_all_versions() {
        // FNV-1a of "a" is 0xaf63dc4c8601ec8c, as its authors publish.
        assert_eq!(name_hash("a"), 0xaf63_dc4c_8601_ec8c);
        let members = ["a", "b", "c"];
        let owners: String = (0..24)
            .filter_map(|slot| owner_of_slot(&members, slot).copied())
            .collect();
        assert_eq!(owners, "ccaabacbbbcacababccbcaca");
    }
}
