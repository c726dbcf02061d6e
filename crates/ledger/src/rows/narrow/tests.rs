//! What is stored once comes back as it was written, and every changed value of a narrow row is found.

use proptest::prelude::*;

use super::shared_values::{LEAST, SharedValues};
use crate::rows::message_columns::MessageColumns;
use crate::sqlite::checksum::is_whole;
use crate::sqlite::sql;
use crate::tests::*;
use model::{Block, LedgerAdmin, LedgerRead};

/// Three turns whose calls share everything that a call can share.
async fn written() -> Fixture {
    let fixture = Fixture::new();
    for (id, parent) in [("t1", None), ("t2", Some("t1")), ("t3", Some("t2"))] {
        fixture.commit(sharing(id, parent)).await.unwrap();
    }
    fixture
}

/// A turn with long arguments and a long result.
fn sharing(id: &str, parent: Option<&str>) -> model::TurnEnd {
    let mut turn = turn(id, "main", parent);
    let long = "a \"long\"\n text \u{1f600} ".repeat(9);
    let arguments = serde_json::json!({ "text": long }).to_string();
    for message in &mut turn.messages {
        for block in &mut message.blocks {
            match block {
                Block::ToolCall { arguments_json, .. } => arguments_json.clone_from(&arguments),
                Block::ToolResult { content, .. } => *content = vec![Block::text(long.clone())],
                _ => {}
            }
        }
    }
    for call in &mut turn.tool_calls {
        call.params = raw(&arguments);
        call.result =
            Some(raw(&serde_json::json!({ "é": 1, "content": [long], "x": 2 }).to_string()));
    }
    turn
}

#[tokio::test]
async fn any_changed_value_of_a_narrow_row_is_reported() {
    let fixture = written().await;
    let check = |connection: &rusqlite::Connection| {
        let run = |sql: &str| connection.execute_batch(sql).unwrap();
        // Triggers and constraints do not see a changed byte.
        run("SAVEPOINT test; DROP TRIGGER turns_stay; PRAGMA ignore_check_constraints = ON;
             PRAGMA defer_foreign_keys = ON");
        let wrong =
            |view: &str| format!("SELECT 1 FROM {view} WHERE NOT ({})", is_whole(view, view));
        let messages = "SELECT 1 FROM message_values";
        let altered = [wrong("turns"), wrong("message_values"), wrong("call_values")];
        let mut changes = vec![
            "UPDATE strings SET text = text || 'x' WHERE id = 1".to_owned(),
            "UPDATE strings SET id = 99 WHERE id = 1".to_owned(),
            "UPDATE message_rows SET content = replace(content, 'long', 'lung') WHERE role = 3"
                .to_owned(),
            "UPDATE message_rows SET blocks_json = replace(blocks_json, 'long', 'lung')".to_owned(),
        ];
        for (table, others) in [
            // `verify()` compares them with the children.
            ("turn_rows", "'n', 'first_child'"),
            // They are covered by the checksum of the message, which is compared when it is read.
            ("message_rows", "'role', 'tool_call_id', 'is_error', 'provider', 'api', 'model', 'response_id', 'stop_reason',
              'content', 'thinking', 'blocks_json', 'result_of'"),
            ("call_rows", "''"),
        ] {
            let select = format!("SELECT name FROM pragma_table_info('{table}') WHERE name NOT IN ({others})");
            let columns: Vec<String> = sql::all(connection, &select, (), "test")?;
            assert!(columns.len() > 8, "{columns:?}");
            changes.extend(columns.iter().map(|column| {
                // A column beside a value that is elsewhere is not used, and stays NULL.
                let unused = match column.as_str() {
                    "params_json" => "AND block IS NULL",
                    _ => "",
                };
                format!(
                    "UPDATE {table} SET {column} = CASE typeof({column}) WHEN 'text' THEN {column} || 'x'
                       WHEN 'blob' THEN x'00' WHEN 'null' THEN 1 ELSE {column} + 1 END
                     WHERE rowid = (SELECT max(rowid) FROM {table}) {unused}"
                )
            }));
        }
        for change in changes {
            run("SAVEPOINT one");
            let changed = connection.execute(&change, ()).unwrap();
            let mut found = false;
            for altered in &altered {
                found |= sql::exists(connection, altered, (), "test")?;
            }
            assert!(found || changed == 0, "{change}");
            run("ROLLBACK TO one; RELEASE one");
        }
        assert!(sql::exists(connection, messages, (), "test")?);
        run("PRAGMA ignore_check_constraints = OFF; ROLLBACK TO test; RELEASE test");
        Ok(())
    };
    fixture.ledger.core().unwrap().writer.submit(check).await.unwrap();
    assert_eq!(fixture.ledger.verify().await.unwrap().problems, []);
}

#[tokio::test]
async fn arguments_and_a_result_that_a_message_has_are_stored_once() {
    let fixture = written().await;
    assert_eq!(
        fixture
            .rows(
                "SELECT count(*) AS calls, count(params_json) AS params, max(length(result_json)) AS rest, \
                 count(result_at) AS shared, count(block) AS blocks FROM call_rows"
            )
            .await,
        r#"[{"calls":3,"params":0,"rest":26,"shared":3,"blocks":3}]"#
    );
    let expected = sharing("t1", None);
    let read = fixture.ledger.turn("t1").await.unwrap().unwrap();
    let call = &expected.tool_calls[0];
    assert_eq!(read.tool_calls[0].params.get(), call.params.get());
    assert_eq!(
        read.tool_calls[0].result.as_ref().map(|result| result.get()),
        call.result.as_ref().map(|result| result.get())
    );
    assert_eq!(
        fixture
            .rows("SELECT count(*) AS n FROM message_rows WHERE role = 3 AND blocks_json IS NULL")
            .await,
        r#"[{"n":3}]"#
    );
}

#[tokio::test]
async fn a_text_that_turns_share_is_stored_once() {
    let fixture = Fixture::new();
    for (id, parent) in [("t1", None), ("t2", Some("t1"))] {
        let mut turn = turn(id, "main", parent);
        // Two columns with the same text.
        turn.settings.model.clone_from(&turn.settings.provider);
        fixture.commit(turn).await.unwrap();
    }
    assert_eq!(
        fixture.rows("SELECT count(*) = count(DISTINCT text) AS once FROM strings").await,
        r#"[{"once":1}]"#
    );
    assert_eq!(
        fixture
            .rows("SELECT count(DISTINCT model) AS n, model = provider AS same FROM turn_rows")
            .await,
        r#"[{"n":1,"same":1}]"#
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_shared_result_is_put_together_by_the_view_and_by_hand_alike(
        text in "[ -~\\x00-\\x1f\"\\\\é😀]{10,60}",
        before in "[a-zé😀\"]{0,9}",
        after in "[a-zé😀\"]{0,9}",
        as_it_is: bool,
    ) {
        let json = serde_json::to_string(&text).unwrap();
        let whole = if as_it_is { text.clone() } else { format!("{before}{json}{after}") };
        let mut shared = SharedValues::default();
        shared.add(&MessageColumns {
            id: "m", key: 3, role: "tool", created_at: 0, tool_call_id: Some("c"), is_error: Some(false),
            provider: None, api: None, model: None, response_id: None, stop_reason: None, checksum: 0,
            content: &text, thinking: None, blocks_json: None, blobs_json: None,
        });
        let result = shared.result("c", &whole);
        prop_assert_eq!(result.is_some(), !text.contains('\0') && text.len() >= LEAST);
        let Some(result) = result else { return Ok(()) };
        prop_assert_eq!(result.message, 3);
        let again: String = memory()
            .query_row(
                "SELECT iif(?1 IS NULL, ?2, substr(?3, 1, ?1) || json_quote(?2) || substr(?3, ?1 + 1))",
                (result.at, &text, &result.rest),
                |row| row.get(0),
            )
            .unwrap();
        prop_assert_eq!(again, whole);
    }
}
