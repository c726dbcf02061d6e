//! Splitting and joining values restores the same bytes; each blob is stored once, and as small as possible.

use proptest::prelude::*;

use super::super::pack::{Packed, hash, unpack};
use super::super::pieces::take_apart;
use super::super::store::{LARGE, store};
use super::*;
use crate::tests::{Fixture, noise};

/// Splits the values and joins them again. Returns the rest of each, the whole values, and the number of blobs.
async fn around(
    fixture: &Fixture,
    texts: [Option<String>; 2],
    lengths: Vec<usize>,
) -> ([Option<String>; 2], [Option<String>; 2], i64) {
    let work = move |connection: &Connection| {
        let [text, json] = &texts;
        let values = [
            Value { column: "a", text: text.as_deref(), kind: Kind::Texts(lengths.clone()) },
            Value { column: "b", text: json.as_deref(), kind: Kind::Json },
        ];
        let (left, names) = take_apart(connection, values)?;
        let left = left.map(|left| left.map(Cow::into_owned));
        let blobs = connection.query_row("SELECT count(*) FROM blobs", (), |row| row.get(0));
        let Some(names) = names else { return Ok((left.clone(), left, blobs.unwrap())) };
        let [a, b] = &left;
        let mut read = |hash: &str| read(connection, hash, "a test");
        let columns = [("a", a.as_deref()), ("b", b.as_deref())];
        let whole = put_together(&names, columns, "a test", &mut read)?;
        let whole = whole.map(|value| value.map(Cow::into_owned));
        Ok((left, whole, blobs.unwrap()))
    };
    fixture.ledger.core().unwrap().writer.submit(work).await.unwrap()
}

#[tokio::test]
async fn only_what_is_over_64_kib_is_taken_out_and_a_json_stays_one() {
    let fixture = Fixture::new();
    let json = |text: &str| serde_json::json!({ "text": text, "more": [1, "small"] }).to_string();
    let (at, over) = ("x".repeat(LARGE), "x".repeat(LARGE + 1));
    let whole = [Some(at.clone()), Some(json(&at[20..]))];
    // The JSON is over the limit, but none of its strings: it is one value.
    let (left, back, blobs) = around(&fixture, whole.clone(), vec![]).await;
    assert_eq!((&left[0], left[1].as_deref(), blobs), (&whole[0], Some(""), 1));
    assert_eq!(back, whole);
    let whole = [Some(over.clone()), Some(json(&over))];
    let (left, back, blobs) = around(&fixture, whole.clone(), vec![]).await;
    assert_eq!(back, whole);
    assert_eq!(left, [Some(String::new()), Some(json(""))]);
    // Both are one text.
    assert_eq!(blobs, 2);
}

#[tokio::test]
async fn a_text_is_one_blob_in_every_context_and_with_every_escaping() {
    let fixture = Fixture::new();
    let file = "Größe:\t\"1\"\n\\ 😀 ".repeat(6_000);
    let text = format!("here: {file}and {file}");
    let lengths = vec![6, file.len(), 4, file.len()];
    let json = serde_json::json!([{ "type": "text", "text": file }, file]).to_string();
    let whole = [Some(text), Some(json)];
    let (left, back, blobs) = around(&fixture, whole.clone(), lengths).await;
    assert_eq!(back, whole);
    assert_eq!((left[0].as_deref(), blobs), (Some("here: and "), 1));
    // An escape that this engine never writes: the text is stored unchanged.
    let odd = format!(r#"["\u0041\/{}"]"#, "b".repeat(LARGE));
    let lone = format!(r#"["\ud800{}"]"#, "b".repeat(LARGE));
    for json in [odd, lone] {
        let whole = [None, Some(json)];
        let (left, back, _) = around(&fixture, whole.clone(), vec![]).await;
        assert_eq!((back, left[1].as_deref()), (whole, Some(r#"[""]"#)));
    }
}

#[test]
fn a_blob_is_compressed_where_that_saves_a_tenth() {
    let image = base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        noise(90_000).as_bytes(),
    );
    for (text, codec, most) in [
        ("line of a log\n".repeat(8_000), "lz4", 2_000),
        (noise(100_000), "raw", 300_000),
        (image, "base64", 270_000),
        ("A".repeat(100_000), "lz4", 1_000),
    ] {
        let packed = Packed::of(&text);
        assert_eq!(packed.codec, codec);
        assert!(packed.data.len() <= most, "{codec}: {}", packed.data.len());
        let hash = hash(&text);
        let again = unpack(&hash, packed.size, codec, &packed.data);
        assert_eq!(again.as_deref(), Some(text.as_str()));
        let mut rotten = packed.data.clone().into_owned();
        let middle = rotten.len() / 2;
        rotten[middle] ^= 1;
        assert_eq!(unpack(&hash, packed.size, codec, &rotten), None);
        for (size, codec) in [(packed.size + 1, codec), (-1, codec), (packed.size, "zstd")] {
            assert_eq!(unpack(&hash, size, codec, &packed.data), None);
        }
        assert_eq!(unpack(&hash, i64::MAX, codec, &packed.data), None);
    }
}

#[tokio::test]
async fn a_value_that_no_row_could_hold_is_refused_however_small_it_would_become() {
    let fixture = Fixture::new();
    let kinds = |bytes: usize| {
        let work = move |connection: &Connection| {
            let text = "x".repeat(bytes);
            let hash = store(connection, &text)?;
            assert!(read(connection, &hash, "a test")? == text);
            Ok(())
        };
        fixture.ledger.core().unwrap().writer.submit(work)
    };
    kinds(64 << 20).await.unwrap();
    let error = kinds((64 << 20) + 1).await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::Constraint);
}

#[tokio::test]
async fn names_that_do_not_fit_are_damage() {
    let fixture = Fixture::new();
    let work = |connection: &Connection| {
        let hash = store(connection, "stored")?;
        let lost = "0".repeat(64);
        let names = |at: usize, hash: &str| {
            format!(r#"{{"a":[{{"at":{at},"form":"text","hash":"{hash}"}}]}}"#)
        };
        let mut kinds = Vec::new();
        let torn = names(0, &hash).replace("text", "odd");
        for (names, text) in [
            (names(0, &hash), Some("")),
            (names(3, &hash), Some("ü")),
            (names(1, &hash), Some("ü")),
            (names(0, &hash), None),
            (names(0, &lost), Some("")),
            (torn, Some("")),
            ("{".to_owned(), Some("")),
        ] {
            let mut read = |hash: &str| read(connection, hash, "a test");
            let joined = put_together(&names, [("a", text)], "a test", &mut read);
            kinds.push(
                joined.map(|[value]| value.unwrap().into_owned()).map_err(|error| error.kind),
            );
        }
        Ok(kinds)
    };
    let kinds = fixture.ledger.core().unwrap().writer.submit(work).await.unwrap();
    let damage = Err(StorageErrorKind::Corrupt);
    let mut expected = vec![damage; 7];
    expected[0] = Ok("stored".to_owned());
    assert_eq!(kinds, expected);
}

fn part() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec!["x", "\"", "\\", "é", "\n", "😀", "\u{1}", "/"]);
    (piece, prop::sample::select(vec![0, 1, 7, 16_384, 30_000, 65_536, 65_537, 70_000]))
        .prop_map(|(piece, times)| piece.repeat(times))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_taken_apart_is_put_together_byte_for_byte(
        texts in prop::collection::vec(part(), 0..4),
        strings in prop::collection::vec((part(), part()), 0..3),
    ) {
        let lengths: Vec<usize> = texts.iter().map(String::len).collect();
        let json = serde_json::to_string(&strings).unwrap();
        let whole = [Some(texts.concat()), Some(json)];
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (left, back, _) = runtime.block_on(async {
            let fixture = Fixture::new();
            around(&fixture, whole.clone(), lengths).await
        });
        prop_assert!(left.iter().flatten().all(|left| left.len() <= LARGE));
        prop_assert!(back == whole);
    }
}
