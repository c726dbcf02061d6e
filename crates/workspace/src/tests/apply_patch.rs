//! `apply_patch` on a real directory, and killed at every step of it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use proptest::prelude::*;

use super::*;
use crate::Outcome;

#[path = "../../../patch/tests/support/mod.rs"]
mod support;
use support::{Tree, begin_patch, unified_diff};

thread_local! {
    /// How many crash points are left until this process ends.
    static POINTS: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Ends the process as `kill -9` does, if its number is reached.
pub(crate) fn crash_point() {
    POINTS.with(|points| match points.get() {
        Some(0) => {
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
        }
        Some(left) => points.set(Some(left - 1)),
        None => {}
    });
}

fn workspace(path: &Path) -> Workspace {
    Workspace::open(&WorkspaceOptions { workspace: path.to_owned(), ..WorkspaceOptions::default() })
        .unwrap()
}

fn patched(path: &Path, patch: &str) -> Result<String, String> {
    let params = json!({ "patch": patch }).to_string();
    let output = workspace(path).call("apply_patch", &params, &Cancel::default());
    output.map_err(|error| error.to_string()).map(|output| match output.content.as_slice() {
        [Block::Text { text }] => text.clone(),
        other => panic!("{other:?}"),
    })
}

fn put(path: &Path, tree: &Tree) {
    for (name, content) in tree {
        let path = path.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

/// Every file beneath a directory; directories without a file are not told apart.
fn tree(path: &Path) -> Tree {
    let mut found = BTreeMap::new();
    let mut left = vec![path.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let entry = entry.unwrap().path();
            if entry.is_dir() {
                left.push(entry);
            } else {
                let name = entry.strip_prefix(path).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read(entry).unwrap());
            }
        }
    }
    found
}

fn directories(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![path.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let entry = entry.unwrap().path();
            if entry.is_dir() {
                found.push(entry.clone());
                left.push(entry);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_patch_of_several_files_is_applied_and_reported() {
    let setup = Setup::new();
    setup.write("a.txt", "one\ntwo\nthree\n").unwrap();
    setup.write("old/b.txt", "b\n").unwrap();
    setup.write("gone.txt", "gone\n").unwrap();
    fs::set_permissions(setup.path("old/b.txt"), fs::Permissions::from_mode(0o751)).unwrap();
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-two \n+2\n*** Add File: new/dir/c.txt\n+c\n\
                 *** Delete File: gone.txt\n*** Update File: old/b.txt\n*** Move to: moved/b.txt\n@@\n-b\n+B\n*** End Patch";
    let before = tree(&setup.path(""));
    let dry = setup.call("apply_patch", &json!({ "patch": patch, "dryRun": true })).unwrap();
    let list = "\nM a.txt\n  the hunk at line 3 of the patch is at line 2 (ignoring trailing whitespace)\nD gone.txt\nA moved/b.txt (from old/b.txt)\n\
                A new/dir/c.txt\nD old/b.txt";
    assert_eq!(dry, format!("The patch can be applied. Nothing was changed.{list}"));
    assert_eq!(tree(&setup.path("")), before);
    let outcome = |patch: &str| {
        let params = json!({ "patch": patch }).to_string();
        setup.workspace.outcome("apply_patch", &params, &Cancel::default()).unwrap()
    };
    assert_eq!(outcome(patch), Outcome::NotDone);
    let applied = setup.call("apply_patch", &json!({ "patch": patch })).unwrap();
    assert_eq!(applied, format!("The patch was applied.{list}"));
    assert!(matches!(outcome(patch), Outcome::Done(_)));
    let after: Vec<(String, Vec<u8>)> = tree(&setup.path("")).into_iter().collect();
    let expected = [("a.txt", "one\n2\nthree\n"), ("moved/b.txt", "B\n"), ("new/dir/c.txt", "c\n")];
    assert_eq!(after, expected.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())));
    assert_eq!(fs::metadata(setup.path("moved/b.txt")).unwrap().mode() & 0o777, 0o751);
    setup.write("a.txt", "something else\n").unwrap();
    assert_eq!(outcome(patch), Outcome::Unknown);
}

#[test]
fn a_patch_that_fits_in_part_changes_nothing_and_lists_every_problem() {
    let setup = Setup::new();
    setup.write("a.txt", "one\n").unwrap();
    setup.write("b.txt", "b\n").unwrap();
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+1\n*** Update File: b.txt\n@@\n-missing\n+x\n\
                 *** Delete File: no.txt\n*** End Patch";
    let error = setup.call("apply_patch", &json!({ "patch": patch })).unwrap_err();
    assert!(
        error.starts_with("The patch was not applied. Nothing was changed.\nline 7: "),
        "{error}"
    );
    assert!(error.contains("\nline 10: `no.txt` does not exist"), "{error}");
    assert_eq!(tree(&setup.path("")).get("a.txt").unwrap(), b"one\n");
    assert!(!setup.path(".nexus-patch").exists());
}

#[test]
fn a_patch_that_needs_one_name_for_a_file_and_a_directory_changes_nothing_and_the_workspace_stays_usable()
 {
    let setup = Setup::new();
    setup.write("d/kept.txt", "kept\n").unwrap();
    std::os::unix::fs::symlink("d", setup.path("link")).unwrap();
    let before = tree(&setup.path(""));
    let add = |first: &str, second: &str| {
        format!(
            "*** Begin Patch\n*** Add File: {first}\n+1\n*** Add File: {second}\n+2\n*** End Patch"
        )
    };
    let nested = |line: usize| {
        format!(
            "The patch was not applied. Nothing was changed.\nline {line}: `x/y` cannot be made, because `x` is a file: \
             choose another name for one of them"
        )
    };
    for (patch, problem) in [
        (add("x", "x/y"), nested(4)),
        (add("x/y", "x"), nested(2)),
        // Which the names alone do not show.
        (
            add("link/x", "d/x/y"),
            "`link/x` was changed by another process meanwhile; read it again".to_owned(),
        ),
        (add("d/x", "link/x/y"), "a part of `link/x/y` is not a directory".to_owned()),
    ] {
        let error = setup.call("apply_patch", &json!({ "patch": patch })).unwrap_err();
        assert_eq!(error, problem, "{patch}");
        assert_eq!(tree(&setup.path("")), before, "{patch}");
        assert!(!setup.path(".nexus-patch").exists(), "{patch}");
    }
    setup.write("after.txt", "").unwrap();
}

#[test]
fn a_patch_never_leaves_the_workspace_and_touches_nothing_protected() {
    let setup = Setup::new();
    symlink("../outside", setup.path("out")).unwrap();
    symlink("../outside/secret", setup.path("link")).unwrap();
    setup.write("agent.db2", "x").unwrap();
    fs::write(setup.path("agent.db"), "ledger\n").unwrap();
    let add = |path: &str| format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch");
    let change = |path: &str, old: &str| {
        format!("*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+x\n*** End Patch")
    };
    let delete = |path: &str| format!("*** Begin Patch\n*** Delete File: {path}\n*** End Patch");
    let patches = [
        add("out/new"),
        add("../outside/new"),
        add("link/new"),
        add(".git/hooks/pre-commit"),
        add("a/.GIT/config"),
        add("agent.db-wal"),
        change("link", "secret"),
        change("out/secret", "secret"),
        change("agent.db", "ledger"),
        delete("link"),
        delete("out/secret"),
        delete("agent.db"),
    ];
    for patch in patches {
        assert!(setup.call("apply_patch", &json!({ "patch": patch })).is_err(), "{patch}");
        assert!(
            setup.call("apply_patch", &json!({ "patch": patch, "dryRun": true })).is_err(),
            "{patch}"
        );
    }
    assert_eq!(bytes(setup.outside("secret")), b"secret");
    assert_eq!(fs::read_dir(setup.outside("")).unwrap().count(), 1);
    assert_eq!(bytes(setup.path("agent.db")), b"ledger\n");
}

#[test]
fn a_forged_journal_leads_nowhere() {
    let setup = Setup::new();
    symlink("../outside", setup.path("out")).unwrap();
    for path in ["../outside/new", "out/new", ".git/hooks/x", "/etc/x", "agent.db", ""] {
        fs::create_dir(setup.path(".nexus-patch")).unwrap();
        fs::write(setup.path(".nexus-patch/old-0"), "forged").unwrap();
        let changes = [json!({ "path": path, "old": old_version(&setup), "new": null })];
        let plan = json!({ "format": 1, "changes": changes, "newDirectories": [] });
        fs::write(setup.path(".nexus-patch/plan.json"), plan.to_string()).unwrap();
        let error = setup.write("a", "b").unwrap_err();
        assert!(error.starts_with("a patch that was interrupted could not be undone"), "{error}");
        fs::remove_dir_all(setup.path(".nexus-patch")).unwrap();
    }
    assert_eq!(fs::read_dir(setup.outside("")).unwrap().count(), 1);
    assert!(!setup.path("agent.db").exists());
}

#[test]
fn a_journal_that_cannot_be_read_stops_what_writes_and_nothing_that_only_reads() {
    let setup = Setup::new();
    fs::write(setup.path("a"), "text\n").unwrap();
    fs::create_dir(setup.path(".nexus-patch")).unwrap();
    fs::write(setup.path(".nexus-patch/plan.json"), "{").unwrap();
    assert_eq!(setup.read("a").unwrap(), "text\n");
    assert!(setup.call("ls", &json!({})).unwrap().contains("a"));
    assert_eq!(setup.call("grep", &json!({ "pattern": "text" })).unwrap(), "a:1: text");
    assert_eq!(setup.call("find", &json!({ "pattern": "a" })).unwrap(), "a");
    let patch = "*** Begin Patch\n*** Add File: c\n+c\n*** End Patch";
    for (tool, params) in [
        ("write", json!({ "path": "a", "content": "b" })),
        ("edit", json!({ "path": "a", "oldText": "text", "newText": "b" })),
        ("apply_patch", json!({ "patch": patch })),
    ] {
        let error = setup.call(tool, &params).unwrap_err();
        assert!(error.starts_with("a patch that was interrupted could not be undone"), "{error}");
    }
    assert_eq!(fs::read(setup.path("a")).unwrap(), b"text\n");
}

fn old_version(setup: &Setup) -> Value {
    let stat = fs::metadata(setup.path(".nexus-patch/old-0")).unwrap();
    json!({
        "device": stat.dev(), "inode": stat.ino(), "size": stat.size(), "seconds": stat.mtime(), "nanoseconds": stat.mtime_nsec(),
    })
}

/// Twenty files: changed, new in new directories, removed, moved.
fn twenty_files() -> (Tree, Tree) {
    let (mut before, mut after) = (Tree::new(), Tree::new());
    for at in 0..20 {
        let text = |word: &str| format!("{at}\n{word}\nend\n").into_bytes();
        match at % 4 {
            0 => {
                before.insert(format!("dir{at}/changed"), text("old"));
                after.insert(format!("dir{at}/changed"), text("new"));
            }
            1 => {
                after.insert(format!("new{at}/deep/made"), text("new"));
            }
            2 => {
                before.insert(format!("removed{at}"), text("old"));
            }
            _ => {
                before.insert(format!("changed{at}"), text("old"));
                after.insert(format!("changed{at}"), text("new"));
            }
        }
    }
    (before, after)
}

/// Applies the patch of `twenty_files` in a process that is killed at this crash point; false where it ended before.
fn killed(dir: &Path, point: usize, tool: &str) -> bool {
    #[expect(clippy::disallowed_methods, reason = "the child is this test itself")]
    let mut child = Command::new(std::env::current_exe().unwrap());
    let status = child
        .args(["--exact", "tests::apply_patch::child_that_is_killed", "--ignored", "--nocapture"])
        .arg(format!("{point}:{tool}:{}", dir.display()))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success() || status.signal() == Some(9), "{status}");
    !status.success()
}

#[test]
#[ignore = "a child of the tests below, which kills itself"]
fn child_that_is_killed() {
    let given = std::env::args().next_back().unwrap();
    let mut parts = given.splitn(3, ':');
    let point: usize = parts.next().unwrap().parse().unwrap();
    let (tool, dir) = (parts.next().unwrap(), Path::new(parts.next().unwrap()));
    let (before, after) = twenty_files();
    let patch = String::from_utf8(unified_diff(&before, &after, 1)).unwrap();
    let params = if tool == "ls" { json!({}) } else { json!({ "patch": patch }) };
    let workspace = workspace(dir);
    POINTS.with(|points| points.set(Some(point)));
    workspace.call(tool, &params.to_string(), &Cancel::default()).unwrap();
}

#[test]
fn a_patch_that_is_killed_at_any_step_happened_whole_or_not_at_all() {
    let (before, after) = twenty_files();
    let every_second = base::config::Environment::process().get("NEXUS_PATCH_KILLS").is_some();
    let (mut done, mut undone) = (0, 0);
    for point in 0.. {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), &before);
        let made = directories(dir.path());
        let was_killed = killed(dir.path(), point, "apply_patch");
        if every_second {
            // The recovery is killed at each of its steps too.
            let mut second = 0;
            while killed(dir.path(), second, "ls") {
                second += 1;
            }
        } else if point % 10 == 3 {
            killed(dir.path(), point % 7, "ls");
        }
        let listing = workspace(dir.path()).call("ls", "{}", &Cancel::default());
        listing.unwrap();
        let found = tree(dir.path());
        if found == after {
            done += 1;
        } else {
            assert_eq!(found, before, "killed at step {point}");
            assert_eq!(directories(dir.path()), made, "killed at step {point}");
            undone += 1;
        }
        if !was_killed {
            break;
        }
    }
    assert!(done > 1 && undone > 40, "{done} done, {undone} undone");
}

#[test]
fn what_somebody_wrote_after_the_crash_stays() {
    let (before, after) = twenty_files();
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), &before);
    let mut point = 0;
    while !dir.path().join("new13/deep/made").exists() {
        killed(dir.path(), point, "apply_patch");
        point += 1;
        if !dir.path().join("new13/deep/made").exists() {
            workspace(dir.path()).call("ls", "{}", &Cancel::default()).unwrap();
        }
    }
    fs::write(dir.path().join("new1/deep/made"), "mine").unwrap();
    workspace(dir.path()).call("ls", "{}", &Cancel::default()).unwrap();
    let mut expected = before;
    expected.insert("new1/deep/made".to_owned(), b"mine".to_vec());
    assert_eq!(tree(dir.path()), expected);
    assert_ne!(expected, after);
}

fn trees() -> impl Strategy<Value = (Tree, Tree)> {
    let line = prop::sample::select(vec!["a", "b", "  c", "", "ü", "end", "x y "]);
    let file = (prop::collection::vec(line, 0..12), any::<bool>()).prop_map(|(lines, ended)| {
        let mut text = lines.join("\n");
        if ended && !text.is_empty() {
            text.push('\n');
        }
        text.into_bytes()
    });
    let names = ["a", "b/c", "b/d/e", "f.txt", "b/g"];
    let tree = prop::collection::vec(prop::option::of(file), names.len()).prop_map(move |files| {
        let named = names.into_iter().map(str::to_owned).zip(files);
        named.filter_map(|(name, file)| Some((name, file?))).collect::<Tree>()
    });
    (tree.clone(), tree)
}

/// A `*** Begin Patch` cannot express that a last line has no newline.
fn ended(tree: Tree) -> Tree {
    let with_newline = |mut text: Vec<u8>| {
        if text.last() != Some(&b'\n') {
            text.push(b'\n');
        }
        text
    };
    tree.into_iter().map(|(name, text)| (name, with_newline(text))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn the_patch_between_two_trees_makes_the_second_of_the_first((before, after) in trees(), unified: bool) {
        let (before, after) = if unified { (before, after) } else { (ended(before), ended(after)) };
        let patch = if unified { unified_diff(&before, &after, 2) } else { begin_patch(&before, &after) };
        prop_assume!(!patch.is_empty());
        let patch = String::from_utf8(patch).unwrap();
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), &before);
        let params = json!({ "patch": patch }).to_string();
        let outcome = || workspace(dir.path()).outcome("apply_patch", &params, &Cancel::default()).unwrap();
        prop_assert!(!matches!(outcome(), Outcome::Done(_)));
        match patched(dir.path(), &patch) {
            Ok(_) => {
                prop_assert_eq!(tree(dir.path()), after);
                prop_assert!(!unified || outcome() != Outcome::NotDone);
            }
            Err(error) => prop_assert!(false, "{}\n{}", error, patch),
        }
        prop_assert!(!dir.path().join(".nexus-patch").exists());
    }
}
