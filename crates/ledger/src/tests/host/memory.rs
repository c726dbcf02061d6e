//! The memory through its port: turns that are indexed once, scopes, facts, and forgetting for good. They must never call an embedder.

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;
use model::{
    DeleteTurnsOptions, Deletion, EmbeddedChunk, EmbeddingCost, FactFilter, FactInput, FactSource,
    ForgetOptions, IndexedTurn, MemoryCandidate, MemoryFact, MemoryKind, MemoryQuery, MemoryScope,
    MemoryScopeKind, MemoryStore, PENDING_BYTES, PendingText, PendingTurn, SessionKind,
    TurnSelection, Vectors,
};

/// A ledger whose turns are remembered.
fn remembering() -> Fixture {
    let fixture = Fixture::new();
    fixture.ledger.remember_turns(Arc::new(|| {}));
    fixture
}

/// A turn whose question is `text`.
fn saying(id: &str, label: &str, parent: Option<&str>, text: &str) -> TurnEnd {
    let mut turn = short_turn(id, label, parent);
    turn.messages[0].blocks = vec![Block::text(text.to_owned())];
    turn
}

/// The turn with a chunk for each of its texts, in the scope of its session.
fn indexed(turn: PendingTurn) -> IndexedTurn {
    IndexedTurn {
        scope: MemoryScope::new(MemoryScopeKind::Session, &turn.session_label),
        kind: if turn.is_summary { MemoryKind::Summary } else { MemoryKind::Turn },
        turn_id: turn.turn_id,
        session_label: turn.session_label,
        chunks: turn.texts,
        is_clipped: false,
        facts: Vec::new(),
        extracts: false,
    }
}

fn numbers(list: &[MemoryCandidate]) -> Vec<i64> {
    list.iter().map(|it| it.n).collect()
}

async fn index_all(fixture: &Fixture) -> usize {
    let mut count = 0;
    for turn in fixture.ledger.pending_turns(100, false).await.unwrap() {
        count += usize::from(fixture.ledger.index_turn(indexed(turn)).await.unwrap());
    }
    count
}

async fn found(fixture: &Fixture, text: &str, scopes: Option<Vec<MemoryScope>>) -> Vec<String> {
    let query = MemoryQuery { text: text.to_owned(), scopes, limit: 50, ..MemoryQuery::default() };
    let found = fixture.ledger.find(query).await.unwrap();
    let row = |n: &i64| found.rows.iter().find(|row| row.n == *n).unwrap().text.clone();
    found.words.iter().map(|it| row(&it.n)).collect()
}

fn fact(id: &str, entity: &str, content: &str) -> Box<FactInput> {
    let content = serde_json::to_string(content).unwrap();
    Box::new(FactInput {
        texts: vec![format!("{entity} likes {content}")],
        fact: MemoryFact {
            id: id.to_owned(),
            entity: entity.to_owned(),
            r#type: "likes".to_owned(),
            content: RawValue::from_string(content).unwrap(),
            scope: MemoryScope::new(MemoryScopeKind::Global, ""),
            source: FactSource::default(),
            confidence: 1.0,
            valid_from: NOW,
            valid_to: None,
            superseded_by: None,
            created_at: NOW,
        },
        supersedes: None,
        within: None,
    })
}

#[tokio::test]
async fn a_ledger_that_nobody_remembers_notes_nothing() {
    let fixture = Fixture::new();
    fixture.commit(short_turn("t1", "main", None)).await.unwrap();
    assert!(fixture.ledger.pending_turns(10, false).await.unwrap().is_empty());
    let again = fixture.ledger.reindex(None, Vectors::Stay).await.unwrap();
    assert_eq!(again.turns, 1, "turns from before are indexed when that is asked for");
}

#[tokio::test]
async fn a_turn_is_pending_from_its_commit_until_its_chunks_are_stored_and_is_indexed_once() {
    let fixture = remembering();
    fixture.commit(saying("t1", "main", None, "I like green tea")).await.unwrap();
    let pending = fixture.ledger.pending_turns(10, false).await.unwrap();
    let texts: Vec<_> =
        pending[0].texts.iter().map(|it| (it.role.as_str(), it.text.as_str())).collect();
    assert_eq!(texts[0], ("user", "I like green tea"));
    assert_eq!(texts[1].0, "assistant");
    assert_eq!(pending[0].identity.kind, SessionKind::Unknown);
    let turn = indexed(pending[0].clone());
    assert!(fixture.ledger.index_turn(turn.clone()).await.unwrap());
    assert!(!fixture.ledger.index_turn(turn).await.unwrap(), "another process is not first again");
    assert!(fixture.ledger.pending_turns(10, false).await.unwrap().is_empty());
    assert_eq!(found(&fixture, "tea", None).await, ["I like green tea"]);
    assert_eq!(fixture.ledger.reindex(None, Vectors::Stay).await.unwrap().turns, 0);
    let counts = fixture.ledger.counts(None).await.unwrap();
    assert_eq!((counts.totals.turns, counts.totals.chunks, counts.totals.pending_turns), (1, 2, 0));
}

#[tokio::test]
async fn the_scope_of_a_subagent_is_that_of_the_session_at_the_top() {
    let fixture = remembering();
    fixture.commit(short_turn("t1", "agent:atlas:main", None)).await.unwrap();
    let set = "UPDATE sessions SET is_subagent = 1, parent_session_label = 'agent:atlas:main' WHERE label = 'worker:w'";
    fixture.commit(short_turn("t2", "worker:w", None)).await.unwrap();
    let core = fixture.ledger.core().unwrap();
    core.writer
        .submit(move |connection| crate::sqlite::sql::exec(connection, set, (), "set a parent"))
        .await
        .unwrap();
    let identity = fixture.ledger.identity_of("worker:w".to_owned()).await.unwrap();
    assert_eq!((identity.label.as_str(), identity.kind), ("agent:atlas:main", SessionKind::Main));
    let new = fixture.ledger.identity_of("agent:nova:main".to_owned()).await.unwrap();
    assert_eq!((new.agent.as_str(), new.persona.as_str()), ("nova", "default"));
}

#[tokio::test]
async fn a_fact_is_superseded_and_listed_and_found_no_more() {
    let fixture = remembering();
    let ledger = &fixture.ledger;
    ledger.store_fact(fact("f1", "alice", "tea")).await.unwrap();
    let same = ledger.store_fact(fact("f2", "alice", "tea")).await.unwrap();
    assert_eq!(same.id, "f1", "what is known is not stored twice");
    let newer = FactInput { supersedes: Some("f1".to_owned()), ..*fact("f3", "alice", "coffee") };
    ledger.store_fact(Box::new(newer.clone())).await.unwrap();
    let again = FactInput { fact: MemoryFact { id: "f4".to_owned(), ..newer.fact }, ..newer };
    let error = ledger.store_fact(Box::new(again)).await.unwrap_err();
    assert_eq!(error.kind.code(), "unknown_fact");
    assert_eq!(found(&fixture, "alice", None).await, ["alice likes \"coffee\""]);
    let list = |superseded| FactFilter { all: true, superseded, ..FactFilter::default() };
    let all = ledger.facts(list(true), None).await.unwrap().items;
    let ends: Vec<_> =
        all.iter().map(|it| (it.id.as_str(), it.valid_to, it.superseded_by.as_deref())).collect();
    assert_eq!(ends, [("f1", Some(NOW), Some("f3")), ("f3", None, None)]);
    assert_eq!(ledger.facts(list(false), None).await.unwrap().items.len(), 1);
    ledger.store_fact(fact("f5", "alice", "milk")).await.unwrap();
    let conflicts = ledger.alike(vec![all[1].clone()], None).await.unwrap().remove(0);
    assert_eq!(conflicts.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["f5"]);
}

#[tokio::test]
async fn vectors_follow_the_cursor_and_are_found_by_their_model_alone() {
    let fixture = remembering();
    let ledger = &fixture.ledger;
    for (id, entity) in [("f1", "east"), ("f2", "north"), ("f3", "west")] {
        ledger.store_fact(fact(id, entity, "it")).await.unwrap();
    }
    let model = ledger.model("m".to_owned(), 2).await.unwrap();
    assert_eq!(ledger.model("m".to_owned(), 2).await.unwrap(), model);
    let other = ledger.model("m".to_owned(), 3).await.unwrap();
    assert_ne!(other, model);
    let chunks = ledger.unembedded(model, 10).await.unwrap();
    let vectors = [vec![1.0, 0.0], vec![0.0, 1.0]].map(EmbeddedChunk::Vector);
    let skipped = EmbeddedChunk::Skipped("too long".to_owned());
    let outcomes = chunks.iter().map(|it| it.n).zip(vectors.into_iter().chain([skipped])).collect();
    let cost = EmbeddingCost { tokens: 9, nanos: Some(1_000) };
    ledger.embedded(model, outcomes, cost).await.unwrap();
    assert!(ledger.unembedded(model, 10).await.unwrap().is_empty());
    assert_eq!(ledger.unembedded(other, 10).await.unwrap().len(), 3);
    let query = |model, vector: Vec<f32>| MemoryQuery {
        vector: Some((model, vector)),
        limit: 5,
        ..MemoryQuery::default()
    };
    let closest = ledger.find(query(model, vec![0.65, 0.76])).await.unwrap();
    assert_eq!(numbers(&closest.vectors), [chunks[1].n, chunks[0].n]);
    assert!(ledger.find(query(other, vec![0.0, 0.6, 0.8])).await.unwrap().vectors.is_empty());
    let counts = ledger.counts(Some(model)).await.unwrap();
    assert_eq!(
        (counts.totals.skipped, counts.totals.skipped_problem.as_deref()),
        (1, Some("too long"))
    );
    assert_eq!((counts.cost.tokens, counts.cost.nanos), (9, Some(1_000)));
    // Another process has forgotten it: this one's codes know.
    let forget = ForgetOptions { id: Some("f2".to_owned()), ..ForgetOptions::default() };
    ledger.forget(forget).await.unwrap();
    let left = ledger.find(query(model, vec![0.65, 0.76])).await.unwrap();
    assert_eq!(numbers(&left.vectors), [chunks[0].n]);
    let again = ledger.reindex(Some(model), Vectors::Anew).await.unwrap();
    assert_eq!(again.chunks, 2);
    assert!(ledger.find(query(model, vec![0.65, 0.76])).await.unwrap().vectors.is_empty());
}

/// Whether the bytes of a file contain `text`.
fn has(path: &Path, text: &str) -> bool {
    std::fs::read(path).is_ok_and(|bytes| memchr::memmem::find(&bytes, text.as_bytes()).is_some())
}

#[tokio::test]
async fn a_forgotten_fact_is_in_no_byte_of_the_file_or_its_log() {
    let fixture = remembering();
    let ledger = &fixture.ledger;
    for number in 0..200 {
        let secret = format!("zanzibar{number} {}", "filler words of a fact ".repeat(number % 7));
        ledger.store_fact(fact(&format!("f{number}"), "alice", &secret)).await.unwrap();
    }
    let log = fixture.folder.path().join("ledger.db-wal");
    for number in (0..200).step_by(3) {
        let forget = ForgetOptions { id: Some(format!("f{number}")), ..ForgetOptions::default() };
        let done = ledger.forget(forget).await.unwrap();
        assert_eq!((done.facts, done.chunks), (1, 1));
    }
    for number in 0..200 {
        let secret = format!("zanzibar{number} ");
        let gone = number % 3 == 0;
        assert_eq!(!has(&fixture.path(), &secret) && !has(&log, &secret), gone, "{secret}");
        let hits = found(&fixture, &format!("zanzibar{number}"), None).await;
        assert_eq!(hits.is_empty(), gone, "{secret}");
    }
    let forgotten = fixture.rows("SELECT count(*) AS n FROM memory_forgotten").await;
    assert_eq!(forgotten, r#"[{"n":67}]"#);
}

#[tokio::test]
async fn a_forgotten_turn_is_not_indexed_again_and_its_summaries_are_listed() {
    let fixture = remembering();
    let ledger = &fixture.ledger;
    fixture.commit(saying("t1", "main", None, "the code is rosebud")).await.unwrap();
    fixture.commit(saying("t2", "main", Some("t1"), "something else")).await.unwrap();
    assert_eq!(index_all(&fixture).await, 2);
    let learned = FactInput {
        fact: MemoryFact {
            source: FactSource { turn_id: Some("t1".to_owned()), call_id: None },
            ..fact("f1", "code", "rosebud").fact
        },
        ..*fact("f1", "code", "rosebud")
    };
    ledger.store_fact(Box::new(learned)).await.unwrap();
    let forget = ForgetOptions { turn_id: Some("t1".to_owned()), ..ForgetOptions::default() };
    let done = ledger.forget(forget).await.unwrap();
    assert_eq!((done.turns, done.facts, done.summaries.len()), (1, 1, 0));
    assert!(found(&fixture, "rosebud", None).await.is_empty());
    assert_eq!(ledger.reindex(None, Vectors::Stay).await.unwrap().turns, 0);
    assert!(ledger.is_forgotten("f1".to_owned()).await.unwrap());
}

#[tokio::test]
async fn what_is_remembered_of_a_turn_is_deleted_with_it() {
    let fixture = remembering();
    fixture.commit(saying("t1", "main", None, "first rosebud")).await.unwrap();
    fixture.commit(saying("t2", "other", None, "second rosebud")).await.unwrap();
    assert_eq!(index_all(&fixture).await, 2);
    fixture.commit(saying("t3", "third", None, "third rosebud")).await.unwrap();
    let sessions =
        TurnSelection { session_label: Some("other".to_owned()), ..TurnSelection::default() };
    let delete = Deletion::Turns(
        sessions,
        DeleteTurnsOptions { secure: true, ..DeleteTurnsOptions::default() },
    );
    let done = fixture.ledger.delete(delete).await.unwrap();
    assert_eq!((done.turns, done.overwritten), (1, true));
    assert!(!has(&fixture.path(), "second rosebud"));
    assert_eq!(found(&fixture, "rosebud", None).await, ["first rosebud"]);
    let session =
        model::DeleteSessionOptions { turns: true, ..model::DeleteSessionOptions::default() };
    fixture.ledger.delete(Deletion::Session("third".to_owned(), session)).await.unwrap();
    assert_eq!(index_all(&fixture).await, 0, "a pending turn is not indexed after its deletion");
}

/// Numbers of scopes and texts: which scope each chunk has, and which scopes are searched.
fn worlds() -> impl Strategy<Value = (Vec<(usize, bool)>, Vec<usize>)> {
    (
        prop::collection::vec((0_usize..6, any::<bool>()), 1..30),
        prop::collection::vec(0_usize..6, 0..4),
    )
}

fn scope(number: usize) -> MemoryScope {
    let kinds = [MemoryScopeKind::Session, MemoryScopeKind::Persona, MemoryScopeKind::Agent];
    MemoryScope::new(kinds[number % 3], ["one", "two"][number / 3])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(feature = "testing") { 24 } else { 12 }))]
    #[test]
    fn a_search_finds_all_of_its_scopes_and_nothing_of_others((chunks, searched) in worlds()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fixture = remembering();
            let ledger = &fixture.ledger;
            for (number, (of, _)) in chunks.iter().enumerate() {
                let id = format!("t{number}");
                fixture.commit(saying(&id, &format!("s{number}"), None, "x")).await.unwrap();
                let turn = IndexedTurn {
                    turn_id: id,
                    session_label: format!("s{number}"),
                    scope: scope(*of),
                    kind: MemoryKind::Turn,
                    chunks: vec![PendingText {
                        role: "user".to_owned(),
                        text: format!("rosebud number{number} of{of}"),
                        created_at: NOW,
                    }],
                    is_clipped: false,
                    facts: Vec::new(),
        extracts: false,
                };
                assert!(ledger.index_turn(turn).await.unwrap());
            }
            let model = ledger.model("m".to_owned(), 8).await.unwrap();
            let unembedded = ledger.unembedded(model, 100).await.unwrap();
            let vectors = unembedded.iter().zip(&chunks).map(|(chunk, (_, has_vector))| {
                let outcome = if *has_vector {
                    EmbeddedChunk::Vector(vec![0.353_553_4; 8])
                } else {
                    EmbeddedChunk::Skipped("no".to_owned())
                };
                (chunk.n, outcome)
            });
            ledger.embedded(model, vectors.collect(), EmbeddingCost::default()).await.unwrap();
            let query = MemoryQuery {
                text: "rosebud".to_owned(),
                vector: Some((model, vec![0.353_553_4; 8])),
                scopes: Some(searched.iter().map(|it| scope(*it)).collect()),
                limit: 100,
                ..MemoryQuery::default()
            };
            let found = ledger.find(query).await.unwrap();
            let texts = |list: &[MemoryCandidate]| {
                let mut texts: Vec<String> = list
                    .iter()
                    .map(|it| found.rows.iter().find(|row| row.n == it.n).unwrap().text.clone())
                    .collect();
                texts.sort();
                texts
            };
            let wanted = |needs_vector: bool| {
                let all = chunks.iter().enumerate();
                let mut texts: Vec<String> = all
                    .filter(|(_, (of, has))| searched.contains(of) && (*has || !needs_vector))
                    .map(|(number, (of, _))| format!("rosebud number{number} of{of}"))
                    .collect();
                texts.sort();
                texts
            };
            assert_eq!(texts(&found.words), wanted(false));
            assert_eq!(texts(&found.vectors), wanted(true));
        });
    }
}

#[tokio::test]
async fn a_search_that_began_before_a_deletion_loses_no_vector_that_came_after_it() {
    let fixture = remembering();
    let ledger = &fixture.ledger;
    let model = ledger.model("m".to_owned(), 2).await.unwrap();
    let embed = async || {
        let vectors = [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]];
        let left = ledger.unembedded(model, 10).await.unwrap();
        let vectors = vectors.map(|vector| EmbeddedChunk::Vector(vector.to_vec()));
        let outcomes = left.iter().map(|it| it.n).zip(vectors).collect();
        ledger.embedded(model, outcomes, EmbeddingCost::default()).await.unwrap();
    };
    for id in ["f1", "f2", "f3"] {
        ledger.store_fact(fact(id, id, "tea")).await.unwrap();
    }
    embed().await;
    let found = async || {
        let vector = Some((model, vec![0.71, 0.71]));
        let query = MemoryQuery { vector, limit: 5, ..MemoryQuery::default() };
        ledger.find(query).await.unwrap().vectors.len()
    };
    assert_eq!(found().await, 3);
    let core = ledger.core().unwrap();
    let (begins, began) = tokio::sync::oneshot::channel();
    let (goes_on, go_on) = std::sync::mpsc::channel::<()>();
    let searched = Arc::clone(&core);
    let late = move |connection: &mut rusqlite::Connection| {
        crate::sqlite::readers::snapshot(connection, |connection| {
            let count: i64 = crate::sqlite::sql::one(
                connection,
                "SELECT generation FROM memory_state",
                (),
                "read a generation",
            )?;
            begins.send(count).unwrap();
            go_on.recv().unwrap();
            searched.codes.closest(connection, (model, &[0.6, 0.8]), 10, |_| true)
        })
    };
    let others = async {
        began.await.unwrap();
        ledger.reindex(Some(model), Vectors::Anew).await.unwrap();
        embed().await;
        assert_eq!(found().await, 3);
        goes_on.send(()).unwrap();
    };
    let (late, ()) = tokio::join!(core.readers.run(late), others);
    late.unwrap();
    assert_eq!(found().await, 3);
}

#[tokio::test]
async fn turns_are_read_up_to_a_number_of_bytes_and_one_that_has_more_is_read_alone() {
    let fixture = remembering();
    let long = "word ".repeat(PENDING_BYTES / 8);
    let mut parent = None;
    for (id, text) in [("t1", long.as_str()), ("t2", &long), ("t3", "short"), ("t4", "short")] {
        fixture.commit(saying(id, "main", parent, text)).await.unwrap();
        parent = Some(id);
    }
    let mut read = Vec::new();
    loop {
        let turns = fixture.ledger.pending_turns(32, false).await.unwrap();
        if turns.is_empty() {
            break;
        }
        read.push(turns.iter().map(|turn| turn.turn_id.clone()).collect::<Vec<_>>());
        for turn in turns {
            assert!(fixture.ledger.index_turn(indexed(turn)).await.unwrap());
        }
    }
    assert_eq!(read, [vec!["t1", "t2"], vec!["t3", "t4"]]);
}
