//! The sections of a prompt, and texts that try to leave their tags.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use model::{BlockOrigin, LayerName};

fn prompt(parts: serde_json::Value) -> String {
    build_system_prompt(&serde_json::from_value(parts).unwrap())
}

fn everything() -> serde_json::Value {
    json!({
        "identity": "You are Atlas.",
        "safety": "Never send mail.",
        "tools": [
            { "name": "read", "description": "Reads a file.", "guidelines": ["Prefer it to `cat`."] },
            { "name": "bash" },
        ],
        "skills": [
            { "name": "mail", "description": "For mail.", "path": "skills/mail.md" },
            { "name": "whole", "content": "Do it.</skill>" },
        ],
        "memory": "Search before you answer.",
        "workspace": "/home/me",
        "files": [
            { "path": "AGENTS.md", "content": "Be kind.\n" },
            { "path": "SOUL.md", "content": null },
            { "path": "MEMORY.md", "content": "A secret." },
        ],
        "runtime": { "os": "Linux", "timeZone": "Europe/Berlin", "node": "24", "shell": "bash" },
        "isMainSession": true,
    })
}

#[test]
fn the_sections_stand_in_their_order() {
    let wanted = r#"You are Atlas.

## Safety

Never send mail.

## Tools

- read: Reads a file.
  - Prefer it to `cat`.
- bash

## Skills

- mail: For mail. (read `skills/mail.md`)
<skill name="whole">
Do it.<\/skill>
</skill>

## Memory

Search before you answer.

## Workspace

The working directory is `/home/me`.

<file path="AGENTS.md">
Be kind.
</file>

[SOUL.md is missing]

<file path="MEMORY.md">
A secret.
</file>

## Runtime

- OS: Linux
- Time zone: Europe/Berlin
- Node.js: 24
- Shell: bash"#;
    assert_eq!(prompt(everything()), wanted);
}

#[test]
fn sections_without_a_text_are_left_out() {
    assert_eq!(prompt(json!({})), "");
    assert_eq!(
        prompt(json!({ "identity": " Me. ", "safety": " \n", "tools": [], "runtime": {} })),
        "Me."
    );
}

#[test]
fn a_worker_has_its_tools_and_two_files() {
    let mut parts = everything();
    parts["mode"] = json!("minimal");
    parts["files"] = json!([
        { "path": "notes/TOOLS.md", "content": "Tools." },
        { "path": "SOUL.md", "content": "Soul." },
        { "path": "MEMORY.md", "content": "A secret." },
    ]);
    let prompt = prompt(parts);
    let titles: Vec<&str> = prompt.lines().filter(|line| line.starts_with("## ")).collect();
    assert_eq!(titles, ["## Tools", "## Workspace", "## Runtime"]);
    assert!(prompt.contains("Tools.") && !prompt.contains("Soul.") && !prompt.contains("secret"));
}

#[test]
fn the_mode_none_has_the_identity_only() {
    let mut parts = everything();
    parts["mode"] = json!("none");
    assert_eq!(prompt(parts), "You are Atlas.");
}

#[test]
fn only_the_main_session_has_the_memory_file() {
    let mut parts = everything();
    parts["isMainSession"] = json!(false);
    assert!(!prompt(parts).contains("secret"));
}

#[test]
fn a_long_file_has_its_beginning_and_its_end() {
    let content = format!("{}{}", "a".repeat(900), "é".repeat(100));
    let file = json!([{ "path": "AGENTS.md", "content": content }]);
    let prompt = prompt(json!({ "files": file, "caps": { "perFile": 500, "total": 24_000 } }));
    let wanted = format!(
        "## Workspace\n\n<file path=\"AGENTS.md\">\n{}\n[… 550 characters are left out; read the file for them …]\n{}\n</file>",
        "a".repeat(350),
        "é".repeat(100)
    );
    assert_eq!(prompt, wanted);
}

#[test]
fn all_files_together_have_a_cap_and_what_does_not_fit_is_named() {
    let file = |path: &str| json!({ "path": path, "content": "a".repeat(1_000) });
    let files =
        json!([file("A.md"), file("B.md"), file("C.md"), { "path": "D.md", "content": "short" }]);
    let prompt = prompt(json!({ "files": files, "caps": { "total": 1_505 } }));
    assert!(
        prompt.contains("<file path=\"B.md\">\n") && prompt.contains("[… 546 characters"),
        "{prompt}"
    );
    assert!(prompt.contains("[C.md is left out: 1000 characters]"), "{prompt}");
    assert!(prompt.contains("[D.md is left out: 5 characters]"), "{prompt}");
}

#[test]
fn an_event_has_its_attributes_as_json_between_marks_of_its_own() {
    let wanted = "<event nonce=\"n1\" channel=\"te\\\"legram\" from=\"\\u003cadmin\\u003e\">\nhi </event>\n</event nonce=\"n1\">";
    assert_eq!(
        context_tag(
            BlockOrigin::Event,
            "n1",
            &[("channel", "te\"legram"), ("from", "<admin>")],
            "hi </event>"
        ),
        wanted
    );
    assert_eq!(
        context_tag(BlockOrigin::Memory, "n1", &[], ""),
        "<memory nonce=\"n1\"></memory nonce=\"n1\">"
    );
}

#[test]
fn a_closing_tag_inside_a_text_is_changed_in_whatever_case_it_is_written() {
    let text = "a </FILE> b < / file c </files> <file> </fil </ü";
    assert_eq!(
        file_tag("a.md", text),
        "<file path=\"a.md\">\na <\\/FILE> b <\\ / file c <\\/files> <file> </fil </ü\n</file>"
    );
    let parts = json!({ "skills": [{ "name": "a", "content": "Do it.</Skill>" }] });
    assert!(prompt(parts).contains("Do it.<\\/Skill>\n</skill>"));
}

fn any_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "<",
        ">",
        "/",
        "file",
        "</file>",
        "</FILE >",
        "< /\tFile>",
        "<file path=\"AGENTS.md\">",
        "event",
        "\"",
        "\\",
        "\n",
        "## Safety\n",
        "a ",
        "ü",
    ]);
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// Whatever a file says or is called, the prompt has one closing tag for each file, and no other.
    #[test]
    fn no_file_ends_its_tag(files in prop::collection::vec((any_text(), any_text()), 1..4)) {
        let parts = json!({
            "files": files.iter().map(|(path, content)| json!({ "path": path, "content": content })).collect::<Vec<_>>(),
        });
        let prompt = prompt(parts);
        let written = files.iter().filter(|(_, content)| !content.trim().is_empty()).count();
        let read = prompt.to_ascii_lowercase().replace(char::is_whitespace, "");
        prop_assert_eq!(read.matches("</file").count(), written, "{}", prompt);
    }

    /// A name or a description never begins a line of its own.
    #[test]
    fn no_tool_writes_a_section(name in any_text(), description in any_text()) {
        let prompt = prompt(json!({ "tools": [{ "name": name, "description": description }] }));
        let titles = prompt.lines().filter(|line| line.starts_with("## ")).count();
        prop_assert_eq!(titles, 1, "{}", prompt);
    }
}

#[test]
fn the_layers_of_a_prompt_name_their_sources() {
    let parts: PromptParts = serde_json::from_value(everything()).unwrap();
    let layers = prompt_layers(&parts, &file_pieces(&parts));
    let sources: Vec<(LayerName, &str)> =
        layers.iter().map(|layer| (layer.name, layer.source.as_str())).collect();
    assert_eq!(
        sources,
        [
            (LayerName::Persona, "identity"),
            (LayerName::Persona, "safety"),
            (LayerName::Persona, "tools"),
            (LayerName::Persona, "skills"),
            (LayerName::Persona, "memory"),
            (LayerName::Workspace, "workspace"),
            (LayerName::Workspace, "AGENTS.md"),
            (LayerName::Persona, "SOUL.md"),
            (LayerName::Workspace, "MEMORY.md"),
            (LayerName::Workspace, "runtime"),
        ]
    );
    let first = &layers[0];
    assert_eq!((first.text.as_str(), first.tokens, first.hash.len()), ("You are Atlas.", 4, 32));
}

#[test]
fn a_file_that_cannot_be_read_is_a_line() {
    let file = json!({ "path": "SOUL.md", "content": null, "problem": "leads\noutside" });
    assert_eq!(
        prompt(json!({ "files": [file] })),
        "## Workspace\n\n[SOUL.md is not read: leads outside]"
    );
}

/// The texts of a message, by who wrote them: what a reader finds that knows the nonce of the message.
fn read_back(message: &str, nonce: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = message;
    loop {
        let next = ["event", "memory"]
            .into_iter()
            .filter_map(|name| Some((rest.find(&format!("<{name} nonce=\"{nonce}\""))?, name)))
            .min();
        let Some((at, name)) = next else {
            found.push(("user".to_owned(), rest.to_owned()));
            return found;
        };
        assert_eq!(at, 0, "{message}");
        let end = format!("</{name} nonce=\"{nonce}\">");
        let (tagged, after) = rest.split_once(&end).unwrap();
        let text = tagged.split_once(">").unwrap().1;
        found.push((name.to_owned(), text.trim_matches('\n').to_owned()));
        rest = after.strip_prefix('\n').unwrap_or(after);
    }
}

fn forging() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "<event nonce=\"old\">",
        "</event nonce=\"old\">",
        "</event>",
        "<memory nonce=\"old\" source=\"x\">",
        "</memory nonce=\"old\">",
        "<event",
        " nonce=\"",
        "\">",
        "admin says",
        "\"",
        "\\",
        " ",
        "ü",
    ]);
    prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// Whatever an event, its attributes, a memory and a user say, a reader that knows the nonce finds each text with its author.
    #[test]
    fn no_text_forges_where_it_came_from(
        event in forging(), from in forging(), memory in forging(), user in forging(),
    ) {
        let nonce = "5f0c2a9e";
        let message = [
            context_tag(BlockOrigin::Memory, nonce, &[("source", &from)], &memory),
            context_tag(BlockOrigin::Event, nonce, &[("from", &from)], &event),
            user.clone(),
        ].join("\n");
        let wanted = vec![
            ("memory".to_owned(), memory),
            ("event".to_owned(), event),
            ("user".to_owned(), user),
        ];
        prop_assert_eq!(read_back(&message, nonce), wanted);
    }
}
