//! Joins the lists of a search: what matches the words of a query well, then both lists by reciprocal rank. Prefers what is newer, and folds
//! near-duplicates.
//!
//! It must never compare a distance with a weight of words: within a list weights are compared, across lists only positions are joined.

use std::collections::{HashMap, HashSet};

use model::{MemoryCandidate, MemoryWhy};

/// The constant of reciprocal rank fusion: the larger, the less the first positions count. With the usual 60 a text far down in both lists,
/// with the common words of a query, comes before the first of one list.
const K: f64 = 1.0;
/// The weight of a hit by words, as a share of the best one's, from which on it is a strong one.
const STRONG: f64 = 0.2;
/// The share of a query, by the rarity of its words, that the best hit by words has where words lead.
const LEADING: f64 = 0.1;
/// The hits by words in which the words of a query are counted.
pub const LOOKED_AT: usize = 20;
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

/// Whether the words of a query lead: the best hit has enough of them, and not only those that the other hits have as well. `hits` are the words
/// of the first hits by words.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "counts of texts")]
pub fn words_lead(query: &HashSet<&str>, hits: &[HashSet<&str>]) -> bool {
    let Some(best) = hits.first() else { return false };
    let all = hits.len() as f64;
    let (mut had, mut wanted) = (0.0, 0.0);
    for word in query {
        let with = hits.iter().filter(|hit| hit.contains(word)).count() as f64;
        let rarity = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
        wanted += rarity;
        if best.contains(word) {
            had += rarity;
        }
    }
    had >= LEADING * wanted
}

/// Joins two lists, each with the best first. A list that was not searched is `None`. Where the words of the query lead, the strong hits by words
/// come first, in their order: vectors add to them, and replace none.
#[must_use]
pub fn fuse(
    words: Option<&[MemoryCandidate]>,
    vectors: Option<&[MemoryCandidate]>,
    words_lead: bool,
) -> Vec<Ranked> {
    let lists = [(words, MemoryWhy::Words), (vectors, MemoryWhy::Vector)];
    let searched = lists.iter().filter(|(list, _)| list.is_some()).count();
    let best = f64::from(u32::try_from(searched.max(1)).unwrap_or(1)) / (K + 1.0);
    let mut found: Vec<Ranked> = Vec::new();
    let mut at: HashMap<i64, usize> = HashMap::new();
    for (list, why) in lists {
        for (position, candidate) in (1_u32..).zip(list.unwrap_or_default()) {
            let (n, score) = (candidate.n, 1.0 / (K + f64::from(position)) / best);
            match at.get(&n).and_then(|at| found.get_mut(*at)) {
                Some(ranked) => {
                    ranked.score += score;
                    ranked.why = MemoryWhy::Both;
                }
                None => {
                    at.insert(n, found.len());
                    found.push(Ranked { n, score, why });
                }
            }
        }
    }
    if words_lead && vectors.is_some() {
        let strong = strong(words.unwrap_or_default());
        let last = (K + 1.0) / (K + f64::from(u32::try_from(strong.len()).unwrap_or(u32::MAX)));
        for ranked in &mut found {
            ranked.score = match strong.get(&ranked.n) {
                Some(position) => (K + 1.0) / (K + f64::from(*position)),
                None => ranked.score * last,
            };
        }
    }
    sort(&mut found);
    found
}

/// The positions of the strong hits by words.
fn strong(words: &[MemoryCandidate]) -> HashMap<i64, u32> {
    let least = words.first().map_or(0.0, |best| best.score * STRONG);
    let strong = words.iter().take_while(|it| it.score >= least);
    strong.zip(1_u32..).map(|(it, position)| (it.n, position)).collect()
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

    use super::{Ranked, distinct, fuse, prefer_new, words_lead};
    use model::{MemoryCandidate, MemoryWhy};

    /// A list in this order, whose weights fall by a hundredth each.
    fn list(numbers: &[i64]) -> Vec<MemoryCandidate> {
        let weights = (0_u32..).map(|position| 1.0 - f64::from(position) / 100.0);
        numbers.iter().zip(weights).map(|(n, score)| MemoryCandidate { n: *n, score }).collect()
    }

    fn both(words: &[i64], vectors: &[i64]) -> Vec<Ranked> {
        fuse(Some(&list(words)), Some(&list(vectors)), false)
    }

    fn numbers(found: &[Ranked]) -> Vec<i64> {
        found.iter().map(|it| it.n).collect()
    }

    #[test]
    fn what_both_lists_have_comes_first_and_the_first_of_both_has_the_score_1() {
        let found = both(&[7, 3], &[7, 9, 3]);
        let why: Vec<_> = found.iter().map(|it| (it.n, it.why)).collect();
        let (both, vector) = (MemoryWhy::Both, MemoryWhy::Vector);
        assert_eq!(why, [(7, both), (3, both), (9, vector)]);
        assert!((found[0].score - 1.0).abs() < 1e-12);
        let alone = fuse(Some(&list(&[7, 3])), None, true);
        assert!((alone[0].score - 1.0).abs() < 1e-12);
        assert_eq!(alone[1].why, MemoryWhy::Words);
    }

    #[test]
    fn the_first_of_one_list_comes_before_what_is_far_down_in_both() {
        let found = both(&[1, 10, 11, 12, 13], &[2, 20, 21, 22, 13]);
        assert_eq!(numbers(&found)[..2], [2, 1]);
        assert!(found.iter().position(|it| it.n == 13) > Some(1));
    }

    #[test]
    fn where_words_lead_strong_hits_by_words_come_first_and_weak_ones_are_joined_with_vectors() {
        let words = [(1, 9.0), (2, 4.0), (3, 1.0)].map(|(n, score)| MemoryCandidate { n, score });
        let found = fuse(Some(&words), Some(&list(&[5, 3, 2])), true);
        let (words, vector, both) = (MemoryWhy::Words, MemoryWhy::Vector, MemoryWhy::Both);
        let why: Vec<_> = found.iter().map(|it| (it.n, it.why)).collect();
        assert_eq!(why, [(1, words), (2, both), (3, both), (5, vector)]);
        assert!((found[0].score - 1.0).abs() < 1e-12);
    }

    #[test]
    fn words_lead_where_the_best_hit_has_words_that_the_others_do_not_have() {
        let set = |text: &'static str| text.split(' ').collect::<std::collections::HashSet<_>>();
        let talk = ["ann and bob met", "ann and eve met", "ann and joe met"].map(set);
        assert!(!words_lead(&set("ann favourite"), &talk));
        assert!(words_lead(&set("ann bob"), &talk));
        assert!(!words_lead(&set("ann"), &[]));
    }

    #[test]
    fn of_two_equal_ranks_the_newer_comes_first_and_age_costs_a_quarter_at_most() {
        let mut found = both(&[1, 2], &[2, 1]);
        prefer_new(&mut found, 1_000.0, |n| if n == 1 { 1e15 } else { 0.0 });
        assert_eq!(numbers(&found), [2, 1]);
        assert!((found[1].score / found[0].score - 0.75).abs() < 1e-9);
    }

    #[test]
    fn near_duplicates_are_folded_into_the_best() {
        let texts =
            ["Alice likes green tea a lot", "alice LIKES green tea, a lot!", "Bob likes coffee"];
        let found = fuse(Some(&list(&[0, 1, 2])), None, false);
        let left = distinct(found, 10, |n| texts.get(usize::try_from(n).unwrap()).copied());
        assert_eq!(left.iter().map(|it| it.n).collect::<Vec<_>>(), [0, 2]);
    }

    proptest! {
        #[test]
        fn a_search_by_words_alone_keeps_their_order(count in 0_i64..50) {
            let words: Vec<i64> = (0..count).map(|n| n * 37 % 101).collect();
            prop_assert_eq!(numbers(&fuse(Some(&list(&words)), None, true)), words);
        }

        #[test]
        fn every_number_of_a_list_is_found_once_with_a_score_between_0_and_1(
            words in prop::collection::hash_set(0_i64..40, 0..30),
            vectors in prop::collection::hash_set(0_i64..40, 0..30),
            lead in any::<bool>(),
        ) {
            let (words, vectors): (Vec<_>, Vec<_>) =
                (words.into_iter().collect(), vectors.into_iter().collect());
            let found = fuse(Some(&list(&words)), Some(&list(&vectors)), lead);
            if lead {
                prop_assert_eq!(&numbers(&found)[..words.len()], &words[..], "all are strong");
            }
            let mut numbers = numbers(&found);
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
