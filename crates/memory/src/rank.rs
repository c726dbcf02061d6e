//! Joins the lists of a search by reciprocal rank, prefers what is newer, and folds near-duplicates.
//!
//! It must never compare a distance with a rank of words: only positions are joined.

use std::collections::{HashMap, HashSet};

use model::MemoryWhy;

/// The constant of reciprocal rank fusion: the larger, the less the first positions count. With the usual 60 a text far down in both lists,
/// with the common words of a query, comes before the first of one list.
const K: f64 = 1.0;
/// How far age lowers a score at most: old texts stay findable.
const AGE_SHARE: f64 = 0.25;
/// How much of the words of two texts must be the same for them to be near-duplicates.
const SAME: f64 = 0.85;

/// Something that was found, by its number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked {
    /// Its number.
    pub n: i64,
    /// 1 for the first of both lists, or of the only one.
    pub score: f64,
    /// The lists that have it.
    pub why: MemoryWhy,
}

/// Joins two lists, each with the best first. A list that was not searched is `None`.
#[must_use]
pub fn fuse(words: Option<&[i64]>, vectors: Option<&[i64]>) -> Vec<Ranked> {
    let lists = [(words, MemoryWhy::Words), (vectors, MemoryWhy::Vector)];
    let searched = lists.iter().filter(|(list, _)| list.is_some()).count();
    let best = f64::from(u32::try_from(searched.max(1)).unwrap_or(1)) / (K + 1.0);
    let mut found: Vec<Ranked> = Vec::new();
    let mut at: HashMap<i64, usize> = HashMap::new();
    for (list, why) in lists {
        for (position, n) in (1_u32..).zip(list.unwrap_or_default()) {
            let score = 1.0 / (K + f64::from(position)) / best;
            match at.get(n).and_then(|at| found.get_mut(*at)) {
                Some(ranked) => {
                    ranked.score += score;
                    ranked.why = MemoryWhy::Both;
                }
                None => {
                    at.insert(*n, found.len());
                    found.push(Ranked { n: *n, score, why });
                }
            }
        }
    }
    sort(&mut found);
    found
}

/// Lowers the scores of old texts. `age_ms` is the age of one; after `half_life_ms` half of the loss has come.
pub fn prefer_new(found: &mut [Ranked], half_life_ms: f64, age_ms: impl Fn(i64) -> f64) {
    for ranked in &mut *found {
        let lives = age_ms(ranked.n).max(0.0) / half_life_ms.max(1.0);
        ranked.score *= 1.0 - AGE_SHARE + AGE_SHARE * (-lives).exp2();
    }
    sort(found);
}

fn sort(found: &mut [Ranked]) {
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then(b.n.cmp(&a.n)));
}

/// The best so many whose texts are not near-duplicates of a better one.
#[must_use]
pub fn distinct<'t>(
    found: Vec<Ranked>,
    most: usize,
    text: impl Fn(i64) -> Option<&'t str>,
) -> Vec<Ranked> {
    let mut taken: Vec<HashSet<String>> = Vec::new();
    let mut left = Vec::new();
    for ranked in found {
        if left.len() == most {
            break;
        }
        let Some(text) = text(ranked.n) else { continue };
        let words = words_of(text);
        if !taken.iter().any(|other| is_same(other, &words)) {
            taken.push(words);
            left.push(ranked);
        }
    }
    left
}

fn words_of(text: &str) -> HashSet<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Whether two texts have nearly the same words.
#[expect(clippy::cast_precision_loss, reason = "counts of words")]
fn is_same(one: &HashSet<String>, other: &HashSet<String>) -> bool {
    let shared = one.intersection(other).count();
    let all = one.len() + other.len() - shared;
    all == 0 || shared as f64 >= SAME * all as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Ranked, distinct, fuse, prefer_new};
    use model::MemoryWhy;

    #[test]
    fn what_both_lists_have_comes_first_and_the_first_of_both_has_the_score_1() {
        let found = fuse(Some(&[7, 3]), Some(&[7, 9, 3]));
        let why: Vec<_> = found.iter().map(|it| (it.n, it.why)).collect();
        let (both, vector) = (MemoryWhy::Both, MemoryWhy::Vector);
        assert_eq!(why, [(7, both), (3, both), (9, vector)]);
        assert!((found[0].score - 1.0).abs() < 1e-12);
        let alone = fuse(Some(&[7, 3]), None);
        assert!((alone[0].score - 1.0).abs() < 1e-12);
        assert_eq!(alone[1].why, MemoryWhy::Words);
    }

    #[test]
    fn the_first_of_one_list_comes_before_what_is_far_down_in_both() {
        let found = fuse(Some(&[1, 10, 11, 12, 13]), Some(&[2, 20, 21, 22, 13]));
        assert_eq!(found.iter().take(2).map(|it| it.n).collect::<Vec<_>>(), [2, 1]);
        assert!(found.iter().position(|it| it.n == 13) > Some(1));
    }

    #[test]
    fn of_two_equal_ranks_the_newer_comes_first_and_age_costs_a_quarter_at_most() {
        let mut found = fuse(Some(&[1, 2]), Some(&[2, 1]));
        prefer_new(&mut found, 1_000.0, |n| if n == 1 { 1e15 } else { 0.0 });
        assert_eq!(found.iter().map(|it| it.n).collect::<Vec<_>>(), [2, 1]);
        assert!((found[1].score / found[0].score - 0.75).abs() < 1e-9);
    }

    #[test]
    fn near_duplicates_are_folded_into_the_best() {
        let texts =
            ["Alice likes green tea a lot", "alice LIKES green tea, a lot!", "Bob likes coffee"];
        let found = fuse(Some(&[0, 1, 2]), None);
        let left = distinct(found, 10, |n| texts.get(usize::try_from(n).unwrap()).copied());
        assert_eq!(left.iter().map(|it| it.n).collect::<Vec<_>>(), [0, 2]);
    }

    proptest! {
        #[test]
        fn a_search_by_words_alone_keeps_their_order(count in 0_i64..50) {
            let words: Vec<i64> = (0..count).map(|n| n * 37 % 101).collect();
            let found = fuse(Some(&words), None);
            prop_assert_eq!(found.iter().map(|it| it.n).collect::<Vec<_>>(), words);
        }

        #[test]
        fn every_number_of_a_list_is_found_once_with_a_score_between_0_and_1(
            words in prop::collection::hash_set(0_i64..40, 0..30),
            vectors in prop::collection::hash_set(0_i64..40, 0..30),
        ) {
            let (words, vectors): (Vec<_>, Vec<_>) =
                (words.into_iter().collect(), vectors.into_iter().collect());
            let found: Vec<Ranked> = fuse(Some(&words), Some(&vectors));
            let mut numbers: Vec<_> = found.iter().map(|it| it.n).collect();
            numbers.sort_unstable();
            let mut all: Vec<_> = words.iter().chain(&vectors).copied().collect();
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(numbers, all);
            prop_assert!(found.iter().all(|it| it.score > 0.0 && it.score <= 1.0 + 1e-12));
            prop_assert!(found.windows(2).all(|pair| pair[0].score >= pair[1].score));
        }
    }
}
