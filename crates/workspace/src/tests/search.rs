//! `find` and `grep` on a real directory.

use super::*;

impl Setup {
    fn files(&self, files: &[(&str, &str)]) {
        for (path, content) in files {
            let path = self.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
    }

    fn grep(&self, params: &Value) -> String {
        self.call("grep", params).unwrap_or_else(|error| format!("error: {error}"))
    }

    /// The names that `find` gives, sorted.
    fn find(&self, params: &Value) -> Vec<String> {
        let text = self.call("find", params).unwrap();
        let mut names: Vec<String> = text.lines().map(str::to_owned).collect();
        names.sort();
        names
    }
}

#[test]
fn what_gitignore_excludes_is_neither_found_nor_searched() {
    let setup = Setup::new();
    setup.files(&[
        (".gitignore", "*.log\nbuild/\n!keep.log\n/only-here\n"),
        (".git/config", "word"),
        (".git/info/exclude", "excluded\n"),
        ("a.log", "word"),
        ("keep.log", "word"),
        ("only-here", "word"),
        ("excluded", "word"),
        ("build/x", "word"),
        ("sub/.gitignore", "!special.log\nlocal\n"),
        ("sub/special.log", "word"),
        ("sub/other.log", "word"),
        ("sub/only-here", "word"),
        ("sub/local", "word"),
        ("sub/.ignore", "!local\n"),
        ("sub/deep/build/x", "word"),
        ("local", "word"),
    ]);
    let expected = ["keep.log", "local", "sub/local", "sub/only-here", "sub/special.log"];
    let found: Vec<String> = expected.iter().map(|path| format!("{path}:1: word")).collect();
    assert_eq!(setup.grep(&json!({ "pattern": "word" })), found.join("\n"));
    let mut names = setup.find(&json!({ "pattern": "*" }));
    names.retain(|name| !name.contains("ignore") && !name.ends_with('/'));
    assert_eq!(names, expected);
    // The rules above a directory hold when only it is searched, and what is named itself is searched.
    assert_eq!(
        setup.grep(&json!({ "pattern": "word", "path": "sub" })),
        "local:1: word\nonly-here:1: word\nspecial.log:1: word"
    );
    assert_eq!(setup.grep(&json!({ "pattern": "word", "path": "build" })), "x:1: word");
    assert_eq!(setup.grep(&json!({ "pattern": "word", "path": "a.log" })), "a.log:1: word");
    // A glob of files is stronger than the rules, but a directory that they exclude is not entered.
    assert_eq!(
        setup.grep(&json!({ "pattern": "word", "glob": "{*.log,x}" })),
        "a.log:1: word\nkeep.log:1: word\nsub/other.log:1: word\nsub/special.log:1: word"
    );
}

#[test]
fn links_and_what_they_lead_to_are_not_searched() {
    let setup = Setup::new();
    setup.files(&[("real/a", "secret\n")]);
    symlink("real", setup.path("folder")).unwrap();
    symlink("../outside", setup.path("out")).unwrap();
    symlink("../outside/secret", setup.path("link")).unwrap();
    symlink("..", setup.path("real/up")).unwrap();
    symlink("../../outside/secret", setup.path("real/.gitignore")).unwrap();
    assert_eq!(setup.grep(&json!({ "pattern": "secret" })), "real/a:1: secret");
    // A link inside that is named itself is followed.
    assert_eq!(setup.grep(&json!({ "pattern": "secret", "path": "folder" })), "a:1: secret");
    assert_eq!(
        setup.find(&json!({ "pattern": "*" })),
        ["folder", "link", "out", "real/", "real/.gitignore", "real/a", "real/up"]
    );
    for path in ["out", "link", "../outside", "out/secret", "real/up/../../outside"] {
        for tool in ["grep", "find"] {
            let params = json!({ "pattern": "secret", "path": path });
            let text = setup.call(tool, &params).unwrap_or_default();
            assert!(!text.contains("secret"), "{tool} {path}: {text}");
        }
    }
}

#[test]
fn a_protected_file_is_not_searched_under_any_name() {
    let setup = Setup::new();
    setup.files(&[("agent.db", "word"), ("agent.db-wal", "word"), ("b", "word")]);
    fs::hard_link(setup.path("agent.db"), setup.path("alias")).unwrap();
    assert_eq!(setup.grep(&json!({ "pattern": "word" })), "b:1: word");
    assert!(setup.grep(&json!({ "pattern": "word", "path": "alias" })).starts_with("error: "));
}

#[test]
fn matches_have_the_lines_around_them_once() {
    let setup = Setup::new();
    setup.files(&[("a", "1\n2 x\n3\n4 x\r\n5\n6\n7\n8 x")]);
    assert_eq!(
        setup.grep(&json!({ "pattern": "x$", "context": 1 })),
        "a-1- 1\na:2: 2 x\na-3- 3\na:4: 4 x\na-5- 5\na-7- 7\na:8: 8 x"
    );
    assert_eq!(
        setup.grep(&json!({ "pattern": "X", "ignoreCase": true, "limit": 2, "context": 1 })),
        "a-1- 1\na:2: 2 x\na-3- 3\na:4: 4 x\na-5- 5\n\n[2 matches limit reached. Use limit=4 for more, or refine pattern]"
    );
    assert_eq!(setup.grep(&json!({ "pattern": "X" })), "No matches found");
    assert_eq!(setup.grep(&json!({ "pattern": "x.*", "literal": true })), "No matches found");
    assert_eq!(setup.grep(&json!({ "pattern": "x", "limit": 3 })).lines().count(), 3);
}

#[test]
fn a_long_line_is_cut_and_other_encodings_are_searched() {
    let setup = Setup::new();
    let wide: Vec<u8> = "\u{feff}grüße\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    setup.files(&[("long", &format!("word{}\n", "😀".repeat(300)))]);
    fs::write(setup.path("wide"), wide).unwrap();
    fs::write(setup.path("marked"), "\u{feff}grüße").unwrap();
    fs::write(setup.path("binary"), b"gr\xc3\xbc\xc3\x9fe\0\x01").unwrap();
    assert_eq!(setup.grep(&json!({ "pattern": "^grüße$" })), "marked:1: grüße\nwide:1: grüße");
    assert_eq!(
        setup.grep(&json!({ "pattern": "word" })),
        format!(
            "long:1: word{}... [truncated]\n\n[Some lines truncated to 500 chars. Use read tool to see full lines]",
            "😀".repeat(248)
        )
    );
    assert_eq!(
        setup.grep(&json!({ "pattern": "gr", "path": "binary" })),
        "[Binary file, 9B: it is not searched]"
    );
}

#[test]
fn a_result_ends_when_it_is_full() {
    let setup = Setup::new();
    setup.files(&[("a", &format!("{}\n", "x".repeat(400)).repeat(300)), ("b", "x")]);
    let output = setup
        .workspace
        .call("grep", &json!({ "pattern": "x", "limit": 1_000 }).to_string(), &Cancel::default())
        .unwrap();
    let [Block::Text { text }] = output.content.as_slice() else { panic!("one text") };
    assert!(text.len() < 52_000 && text.ends_with("\n\n[50.0KB limit reached]"));
    let details = output.details.unwrap();
    assert_eq!(details["truncation"]["truncatedBy"], "bytes");
    assert_eq!(details["truncation"]["outputLines"], text.lines().count() - 2);
}

#[test]
fn found_names_are_newest_first() {
    let setup = Setup::new();
    setup.files(&[("a/old.ts", ""), ("new.ts", ""), ("b/c/middle.ts", ""), ("x.md", "")]);
    for (name, seconds) in [("a/old.ts", 1_000), ("b/c/middle.ts", 2_000), ("new.ts", 3_000)] {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        fs::File::open(setup.path(name)).unwrap().set_modified(time).unwrap();
    }
    let find = |params| setup.call("find", &params).unwrap();
    assert_eq!(find(json!({ "pattern": "*.ts" })), "new.ts\nb/c/middle.ts\na/old.ts");
    assert_eq!(
        find(json!({ "pattern": "**/*.ts", "limit": 1 })),
        "new.ts\n\n[1 results limit reached. Use limit=2 for more, or refine pattern]"
    );
    assert_eq!(find(json!({ "pattern": "b/**/*.ts" })), "b/c/middle.ts");
    assert_eq!(find(json!({ "pattern": "*.ts", "path": "b" })), "c/middle.ts");
    assert_eq!(find(json!({ "pattern": "nothing" })), "No files found matching pattern");
    assert_eq!(
        setup.call("find", &json!({ "pattern": "*", "path": "new.ts" })),
        Err("Not a directory: new.ts".to_owned())
    );
}

#[test]
fn a_search_ends_at_its_time_limit_with_what_it_found() {
    let setup = Setup::new();
    setup.files(&[("a", "word\n")]);
    let cancel = Cancel::default();
    cancel.expire();
    for (tool, nothing) in
        [("grep", "No matches found"), ("find", "No files found matching pattern")]
    {
        let output =
            setup.workspace.call(tool, &json!({ "pattern": "a" }).to_string(), &cancel).unwrap();
        let note =
            "[The search stopped at its time limit, and is incomplete. Search a smaller directory]";
        let text = format!("{nothing}\n\n{note}");
        assert_eq!(output.content, [Block::Text { text }]);
        assert_eq!(output.details, Some(json!({ "incomplete": "time" })));
    }
    cancel.cancel();
    let cancelled = setup.workspace.call("grep", r#"{"pattern":"a"}"#, &cancel);
    assert_eq!(cancelled.unwrap_err().to_string(), "Operation aborted");
}

#[test]
fn lines_are_in_the_order_of_their_paths_whichever_thread_found_them() {
    let setup = Setup::new();
    let names: Vec<String> = (0..1_200).map(|at| format!("d{:02}/f{at:04}", at / 40)).collect();
    let texts: Vec<String> = (0..1_200).map(|at| format!("before\nword {at}\nafter\n")).collect();
    let files = names.iter().map(String::as_str).zip(texts.iter().map(String::as_str));
    setup.files(&files.collect::<Vec<_>>());
    let expected = |limit: usize| {
        let lines = names.iter().enumerate().take(limit).flat_map(|(at, name)| {
            [
                format!("{name}-1- before"),
                format!("{name}:2: word {at}"),
                format!("{name}-3- after"),
            ]
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let grep = |limit: usize| {
        let text = setup.grep(&json!({ "pattern": "^word", "limit": limit, "context": 1 }));
        text.split("\n\n[").next().unwrap_or_default().to_owned()
    };
    for limit in [1, 99, 300] {
        assert_eq!(grep(limit), expected(limit));
    }
    // More calls at once than there are threads to help them.
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..8).map(|_| scope.spawn(|| grep(250))).collect();
        for call in calls {
            assert_eq!(call.join().unwrap(), expected(250));
        }
    });
    assert_eq!(setup.grep(&json!({ "pattern": "^word 1199$" })), "d29/f1199:2: word 1199");
}

#[test]
fn a_file_is_searched_alike_whether_it_is_read_at_once_or_in_pieces() {
    let setup = Setup::new();
    let line = format!("{}\n", "x".repeat(99));
    for (name, lines) in
        [("empty", 0), ("small", 200), ("most", 654), ("more", 656), ("large", 3_000)]
    {
        let end = if lines == 0 { "" } else { "word at the end" };
        fs::write(setup.path(name), format!("{}{end}", line.repeat(lines))).unwrap();
        // What follows a zero is not text.
        let rest = line.repeat(lines);
        let cut = format!("{}word\0\nword\n{rest}word\n", line.repeat(90));
        fs::write(setup.path(&format!("cut-{name}")), cut).unwrap();
    }
    let found = [
        "cut-empty:91: word",
        "cut-large:91: word",
        "cut-more:91: word",
        "cut-most:91: word",
        "cut-small:91: word",
        "large:3001: word at the end",
        "more:657: word at the end",
        "most:655: word at the end",
        "small:201: word at the end",
    ];
    assert_eq!(setup.grep(&json!({ "pattern": "^word" })), found.join("\n"));
    for each in found {
        let (name, _) = each.split_once(':').unwrap();
        assert_eq!(setup.grep(&json!({ "pattern": "^word", "path": name })), each);
    }
}
