//! The search: unindexed and indexed messages are found in one order, also those of other processes and after failures.

use proptest::prelude::*;

use super::*;
use crate::search::search_indexer;
use crate::sqlite::error::{Stored, sqlite};
use model::{Page, SearchHit};

async fn page(ledger: &Ledger, text: &str, options: serde_json::Value) -> Page<SearchHit, i64> {
    ledger.search(text.to_owned(), serde_json::from_value(options).unwrap()).await.unwrap()
}

/// The ids of all found messages, two for each page.
async fn found(ledger: &Ledger, text: &str) -> Vec<String> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let page = page(ledger, text, serde_json::json!({ "after": after, "limit": 2 })).await;
        ids.extend(page.items.into_iter().map(|hit| hit.message_id));
        after = page.next;
        if after.is_none() {
            return ids;
        }
    }
}

async fn on_writer<T: Send + 'static>(
    ledger: &Ledger,
    work: impl FnMut(&rusqlite::Connection) -> Stored<T> + Send + 'static,
) -> Stored<T> {
    ledger.core().unwrap().writer.submit(work).await
}

async fn waiting(ledger: &Ledger) -> i64 {
    on_writer(ledger, search_indexer::waiting).await.unwrap()
}

fn turn_with(id: &str, label: &str, texts: &[String]) -> TurnEnd {
    let mut turn = short_turn(id, label, None);
    turn.move_pointer = false;
    turn.query_message_ids.clear();
    turn.response_message_id = None;
    turn.messages = texts
        .iter()
        .zip(0_u32..)
        .map(|(text, at)| {
            let role = if at % 2 == 0 { Role::User } else { Role::Assistant };
            message(&format!("{id}.{at}"), role, at, vec![Block::text(text.clone())])
        })
        .collect();
    turn
}

#[tokio::test]
async fn a_commit_writes_no_words_and_they_are_found_at_once_and_by_the_next_process() {
    let fixture = Fixture::new();
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    assert_eq!(waiting(&fixture.ledger).await, 4);
    assert_eq!(found(&fixture.ledger, "ask").await, ["t1-m0"]);
    // A copy of the files is their state after a kill at this point.
    let image = tempfile::tempdir().unwrap();
    for file in ["ledger.db", "ledger.db-wal"] {
        std::fs::copy(fixture.folder.path().join(file), image.path().join(file)).unwrap();
    }
    let after = open(&image.path().join("ledger.db")).unwrap();
    assert_eq!((found(&after, "ask").await, waiting(&after).await), (vec!["t1-m0".into()], 4));
    after.close().await.unwrap();
    fixture.ledger.close().await.unwrap();
    let again = open(&fixture.path()).unwrap();
    assert_eq!(found(&again, "done").await, ["t1-m3"]);
}

#[tokio::test]
async fn a_turn_that_runs_is_not_indexed_and_is_found_when_it_has_ended() {
    let fixture = Fixture::new();
    let whole = turn("t1", "main", None);
    let epoch = super::journal::begin(&fixture.ledger, &whole).await;
    // A turn that began later ends earlier, and is indexed before the first has ended.
    fixture.commit(turn("t2", "other", None)).await.unwrap();
    assert!(!on_writer(&fixture.ledger, search_indexer::slice).await.unwrap());
    assert_eq!(waiting(&fixture.ledger).await, 0);
    assert_eq!(found(&fixture.ledger, "ask").await, ["t2-m0"]);
    let ended = TurnEnd { epoch: Some(epoch), ..whole };
    fixture.commit(ended).await.unwrap();
    assert_eq!(found(&fixture.ledger, "ask").await, ["t1-m0", "t2-m0"]);
    assert_eq!(found(&fixture.ledger, "done").await, ["t1-m3", "t2-m3"]);
}

#[tokio::test]
async fn a_search_indexes_the_messages_of_many_turns_first() {
    let fixture = Fixture::new();
    let texts: Vec<String> = (0..400).map(|n| format!("word{} of many", n % 7)).collect();
    for (turn, texts) in texts.chunks(100).enumerate() {
        fixture.commit(turn_with(&format!("t{turn}"), "main", texts)).await.unwrap();
    }
    let hits = page(&fixture.ledger, "word3", serde_json::json!({ "limit": 1_000 })).await;
    assert_eq!(hits.items.len(), 57);
    assert!(waiting(&fixture.ledger).await <= search_indexer::WAITING);
    assert_eq!(found(&fixture.ledger, "word3 many").await.len(), 57);
    assert_eq!(found(&fixture.ledger, "of wor*").await.len(), 400);
}

#[tokio::test]
async fn messages_that_cannot_be_indexed_are_searched_one_by_one() {
    let fixture = Fixture::new();
    let words = |n| (0..40).map(move |w| format!("w{n}_{w}")).collect::<Vec<_>>().join(" ");
    let texts: Vec<String> = (0..300).map(|n| format!("x{n} filler {}", words(n))).collect();
    fixture.commit(turn_with("t1", "main", &texts)).await.unwrap();
    let pages = on_writer(&fixture.ledger, |connection| {
        let cap = "PRAGMA max_page_count = 1";
        connection.query_row(cap, (), |row| row.get(0)).map_err(|error| sqlite("cap", &error))
    });
    let pages: i64 = pages.await.unwrap();
    let error = on_writer(&fixture.ledger, search_indexer::slice).await.unwrap_err();
    assert_eq!(error.kind, model::StorageErrorKind::Full, "{pages} pages");
    let hits = page(&fixture.ledger, "filler", serde_json::json!({ "limit": 1_000 })).await;
    assert_eq!((hits.items.len(), waiting(&fixture.ledger).await), (300, 300));
    assert_eq!(found(&fixture.ledger, "x299").await, ["t1.299"]);
}

#[tokio::test]
async fn a_vacuum_changes_nothing_that_is_found() {
    let fixture = Fixture::new();
    for number in 0..9 {
        let wrong = turn(&format!("t{number}"), "main", Some("nowhere"));
        fixture.commit(wrong).await.unwrap_err();
        let label = format!("s{number}");
        fixture.commit(turn(&format!("t{number}"), &label, None)).await.unwrap();
    }
    on_writer(&fixture.ledger, search_indexer::slice).await.unwrap();
    let before = found(&fixture.ledger, "ask").await;
    fixture.ledger.vacuum().await.unwrap();
    assert_eq!((found(&fixture.ledger, "ask").await, before.len()), (before, 9));
    assert_eq!(found(&fixture.ledger, "t7 done").await, ["t7-m3"]);
    assert!(fixture.ledger.verify().await.unwrap().ok);
}

/// Changes a byte of a word in the index's list of pages, in the file of a closed ledger. `at` counts from the end of the
/// word. False without such a byte.
#[expect(clippy::disallowed_methods, reason = "it alters a file as a disk would")]
fn alter_list_of_pages(path: &Path, (page, at, change): (usize, usize, u8)) -> bool {
    let connection = rusqlite::Connection::open(path).unwrap();
    let select =
        "SELECT segid, pgno, term FROM message_words_idx WHERE length(term) > 0 ORDER BY pgno";
    let rows: Vec<(i64, i64, Vec<u8>)> = connection
        .prepare(select)
        .unwrap()
        .query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let Some((segment, number, mut term)) = rows.into_iter().nth(page) else { return false };
    let Some(byte) = term.len().checked_sub(1 + at).and_then(|at| term.get_mut(at)) else {
        return false;
    };
    *byte ^= change;
    let update = "UPDATE OR IGNORE message_words_idx SET term = ?3 WHERE segid = ?1 AND pgno = ?2";
    connection.execute(update, (segment, number, term)).unwrap() == 1
}

#[tokio::test]
async fn a_list_of_pages_that_leads_past_a_word_is_found_and_only_then() {
    let fixture = Fixture::new();
    let words: Vec<String> = (1..=480_u64)
        .map(|number| {
            format!(
                "{:032x}",
                u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
            )
        })
        .collect();
    let texts: Vec<String> = words.chunks(160).map(|words| words.join(" ")).collect();
    fixture.commit(turn_with("t1", "main", &texts)).await.unwrap();
    on_writer(&fixture.ledger, search_indexer::slice).await.unwrap();
    fixture.ledger.close().await.unwrap();
    let whole = std::fs::read(fixture.path()).unwrap();
    let (mut missed, mut harmless) = (0, 0);
    for altered in (0..3).flat_map(|page| {
        (0..2).flat_map(move |at| [1, 2, 3, 4, 8, 0x70].map(|change| (page, at, change)))
    }) {
        let path = fixture.folder.path().join("altered.db");
        std::fs::write(&path, &whole).unwrap();
        assert!(alter_list_of_pages(&path, altered), "{altered:?}");
        let ledger = open(&path).unwrap();
        let mut all = true;
        for (number, word) in words.iter().enumerate() {
            all = all && found(&ledger, word).await == [format!("t1.{}", number / 160)];
        }
        let report = ledger.verify().await.unwrap();
        assert!(all || !report.ok, "{altered:?}: a search misses a word");
        missed += u32::from(!all);
        harmless += u32::from(report.ok);
        ledger.close().await.unwrap();
    }
    assert!(missed > 3 && harmless > 0, "{missed} changes hide a word, {harmless} change nothing");
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    let word = prop::sample::select(vec![
        "one",
        "One",
        "on",
        "tw_o",
        "two",
        "ünd",
        "上下文",
        "文",
        "-",
        "\"",
        "3*",
        "é",
        "x1",
    ]);
    let text = prop::collection::vec(word, 0..5).prop_map(|words| words.join(" "));
    prop::collection::vec(text, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Two ledgers with the same turns, one of which is indexed from time to time, find the same messages.
    #[test]
    fn an_index_changes_nothing_that_is_found(
        turns in prop::collection::vec((texts(), any::<bool>()), 1..8),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (plain, indexed) = (Fixture::new(), Fixture::new());
            for (at, (texts, index)) in turns.iter().enumerate() {
                for fixture in [&plain, &indexed] {
                    fixture.commit(turn_with(&format!("t{at}"), "main", texts)).await.unwrap();
                }
                if *index {
                    on_writer(&indexed.ledger, search_indexer::slice).await.unwrap();
                }
            }
            let wanted = [
                "one", "ON", "on*", "o*", "tw_o", "two", "tw*", "ünd", "ü*", "下文", "上*", "文", "3", "é", "x1 one",
                "e", "one two 上下", "_o",
            ];
            for text in wanted {
                let found = (found(&plain.ledger, text).await, found(&indexed.ledger, text).await);
                prop_assert_eq!(&found.0, &found.1, "{}", text);
            }
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn tool_results_are_not_searched_and_no_words_find_nothing() {
    let fixture = Fixture::new();
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    for indexed in [false, true] {
        if indexed {
            on_writer(&fixture.ledger, search_indexer::slice).await.unwrap();
        }
        assert_eq!(found(&fixture.ledger, "ask").await, ["t1-m0"]);
        for nothing in ["content", "*", ""] {
            assert_eq!(found(&fixture.ledger, nothing).await, [""; 0], "{nothing}");
        }
    }
}
