//! The tools on a real directory. A test here must never need more than the disk.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::{Block, Cancel, Workspace, WorkspaceOptions};

mod apply_patch;
mod leftovers;
mod search;
mod shell;

pub(crate) use apply_patch::crash_point;

struct Setup {
    dir: tempfile::TempDir,
    workspace: Workspace,
}

impl Setup {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["work", "outside", "manual"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("outside/secret"), "secret").unwrap();
        let workspace = Workspace::open(&WorkspaceOptions {
            workspace: dir.path().join("work"),
            read_roots: vec![dir.path().join("manual")],
            protect: vec![dir.path().join("work/agent.db")],
            ..WorkspaceOptions::default()
        })
        .unwrap();
        Self { dir, workspace }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("work").join(name)
    }

    fn outside(&self, name: &str) -> PathBuf {
        self.dir.path().join("outside").join(name)
    }

    fn call(&self, tool: &str, params: &Value) -> Result<String, String> {
        let output = self
            .workspace
            .call(tool, &params.to_string(), &Cancel::default())
            .map_err(|error| error.to_string())?;
        Ok(output
            .content
            .iter()
            .map(|block| match block {
                Block::Text { text } => text.clone(),
                Block::Image { data, mime_type } => format!("<{mime_type} {data}>"),
            })
            .collect())
    }

    fn read(&self, path: &str) -> Result<String, String> {
        self.call("read", &json!({ "path": path }))
    }

    fn write(&self, path: &str, content: &str) -> Result<String, String> {
        self.call("write", &json!({ "path": path, "content": content }))
    }

    fn edit(&self, path: &str, old: &str, new: &str) -> Result<String, String> {
        self.call("edit", &json!({ "path": path, "oldText": old, "newText": new }))
    }
}

fn bytes(path: impl AsRef<Path>) -> Vec<u8> {
    fs::read(path).unwrap()
}

#[test]
fn a_file_is_written_with_its_directories_and_read_back() {
    let setup = Setup::new();
    assert_eq!(
        setup.write("a/b/c.txt", "grüße\n").unwrap(),
        "Successfully wrote 8 bytes to a/b/c.txt"
    );
    assert_eq!(setup.read("a/b/c.txt").unwrap(), "grüße\n");
    assert_eq!(setup.read(setup.path("a/b/c.txt").to_str().unwrap()).unwrap(), "grüße\n");
    assert_eq!(setup.call("ls", &json!({})).unwrap(), "a/");
    assert_eq!(setup.call("ls", &json!({ "path": "a/b" })).unwrap(), "c.txt");
}

#[test]
fn a_replaced_file_has_its_mode_and_is_another_file() {
    let setup = Setup::new();
    fs::write(setup.outside("linked"), "old").unwrap();
    fs::hard_link(setup.outside("linked"), setup.path("run.sh")).unwrap();
    fs::set_permissions(setup.path("run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    setup.write("run.sh", "new").unwrap();
    assert_eq!(fs::metadata(setup.path("run.sh")).unwrap().mode() & 0o7777, 0o750);
    assert_eq!(bytes(setup.outside("linked")), b"old");
    assert_eq!(setup.call("ls", &json!({})).unwrap(), "run.sh");
}

#[test]
fn a_link_inside_is_followed_and_one_that_leads_out_is_not() {
    let setup = Setup::new();
    setup.write("real/a.txt", "a").unwrap();
    symlink("real/a.txt", setup.path("inner")).unwrap();
    symlink("real", setup.path("folder")).unwrap();
    symlink("../outside/secret", setup.path("out")).unwrap();
    symlink(setup.outside("secret"), setup.path("absolute")).unwrap();
    symlink("../outside", setup.path("out-folder")).unwrap();
    symlink("../outside/new", setup.path("dangling")).unwrap();
    assert_eq!(setup.read("inner").unwrap(), "a");
    assert_eq!(setup.read("folder/a.txt").unwrap(), "a");
    setup.write("inner", "b").unwrap();
    setup.edit("folder/a.txt", "b", "c").unwrap();
    assert_eq!(bytes(setup.path("real/a.txt")), b"c");
    assert!(fs::symlink_metadata(setup.path("inner")).unwrap().is_symlink());
    for path in
        ["out", "absolute", "out-folder/secret", "out-folder/new", "dangling", "folder/../out"]
    {
        assert!(setup.read(path).is_err(), "read {path}");
        assert!(setup.write(path, "x").is_err(), "write {path}");
        assert!(setup.edit(path, "secret", "x").is_err(), "edit {path}");
    }
    assert!(setup.call("ls", &json!({ "path": "out-folder" })).is_err());
    assert_eq!(
        setup.call("ls", &json!({})).unwrap(),
        "absolute\ndangling\nfolder/\ninner\nout\nout-folder\nreal/"
    );
    assert_eq!(bytes(setup.outside("secret")), b"secret");
    assert_eq!(fs::read_dir(setup.outside("")).unwrap().count(), 1);
}

#[test]
fn what_is_no_file_is_refused_without_being_opened() {
    let setup = Setup::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        setup.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(setup.path("socket")).unwrap();
    let pipe = "`pipe` is a named pipe, and not a file or a directory".to_owned();
    assert_eq!(setup.read("pipe"), Err(pipe.clone()));
    assert_eq!(setup.write("pipe", "x"), Err(pipe));
    assert_eq!(
        setup.read("socket"),
        Err("`socket` is a socket, and not a file or a directory".to_owned())
    );
    let root =
        Workspace::open(&WorkspaceOptions { workspace: "/".into(), ..Default::default() }).unwrap();
    for path in
        ["proc/self/environ", "proc/self/root/etc/hostname", "dev/zero", "sys/kernel/uevent_seqnum"]
    {
        let read = root.call("read", &json!({ "path": path }).to_string(), &Cancel::default());
        assert!(read.is_err(), "{path}");
    }
}

#[test]
fn a_read_root_is_only_read() {
    let setup = Setup::new();
    let page = setup.dir.path().join("manual/page.md");
    fs::write(&page, "page").unwrap();
    let path = page.to_str().unwrap();
    assert_eq!(setup.read(path).unwrap(), "page");
    let refused = Err(format!("`{path}` is in a directory that is only read"));
    assert_eq!(setup.write(path, "x"), refused);
    assert_eq!(setup.edit(path, "page", "x"), refused);
    assert_eq!(bytes(&page), b"page");
}

#[test]
fn nothing_is_written_in_a_git_folder_under_any_name() {
    let setup = Setup::new();
    fs::create_dir_all(setup.path("sub/.git/hooks")).unwrap();
    symlink("sub/.git", setup.path("g")).unwrap();
    symlink("sub/.git/hooks/pre-commit", setup.path("hook")).unwrap();
    for path in [
        ".git",
        ".git/hooks/pre-commit",
        ".GIT/config",
        "sub/.git/config",
        "sub/.git/hooks/pre-commit",
        "g/config",
        "g/hooks/new",
        "g/made/new",
        "hook",
        "x/.git/hooks/a",
        "sub/./x/../.git/config",
    ] {
        let refused = Err(format!("`{path}` is in a `.git`, which the file tools do not write"));
        assert_eq!(setup.write(path, "x"), refused);
    }
    assert_eq!(setup.call("ls", &json!({ "path": "sub/.git" })).unwrap(), "hooks/");
    assert_eq!(
        setup.call("ls", &json!({ "path": "sub/.git/hooks" })).unwrap(),
        "(empty directory)"
    );
    assert!(!setup.path(".git").exists());
    setup.write(".gitignore", "target\n").unwrap();
}

#[test]
fn a_ledger_is_neither_read_nor_written_under_any_name() {
    let setup = Setup::new();
    fs::write(setup.path("agent.db"), "ledger").unwrap();
    fs::write(setup.path("agent.db-wal"), "wal").unwrap();
    fs::hard_link(setup.path("agent.db"), setup.path("copy")).unwrap();
    symlink("agent.db-wal", setup.path("link")).unwrap();
    for path in ["agent.db", "agent.db-wal", "copy", "link"] {
        let refused = Err(format!("`{path}` is protected: the host's own data is in it"));
        assert_eq!(setup.read(path), refused);
        assert_eq!(setup.write(path, "x"), refused);
        assert_eq!(setup.edit(path, "l", "x"), refused);
    }
    // One that does not exist yet must not be made.
    assert!(setup.write("agent.db-shm", "x").is_err());
    assert!(setup.write("AGENT.db-journal", "x").is_err());
}

#[test]
fn an_edit_keeps_the_encoding_the_mark_and_the_line_endings() {
    let setup = Setup::new();
    fs::write(setup.path("crlf"), b"\xef\xbb\xbfone\r\ntwo\r\n").unwrap();
    setup.edit("crlf", "one\ntwo", "1\n2\n3").unwrap();
    assert_eq!(bytes(setup.path("crlf")), b"\xef\xbb\xbf1\r\n2\r\n3\r\n");
    let wide = |text: &str| -> Vec<u8> {
        [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
    };
    fs::write(setup.path("wide"), wide("größe 1\r\n")).unwrap();
    assert_eq!(setup.read("wide").unwrap(), "größe 1\r\n");
    setup.edit("wide", "größe 1", "größe 2").unwrap();
    assert_eq!(bytes(setup.path("wide")), wide("größe 2\r\n"));
    fs::write(setup.path("latin"), b"gr\xf6\xdfe and more text here").unwrap();
    let refused = Err("`latin` is not a text in UTF-8 or UTF-16, and cannot be edited".to_owned());
    assert_eq!(setup.edit("latin", "more", "less"), refused);
}

#[test]
fn an_image_is_a_block_and_other_bytes_are_a_note() {
    let setup = Setup::new();
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01".to_vec();
    fs::write(setup.path("a.png"), &png).unwrap();
    assert_eq!(
        setup.read("a.png").unwrap(),
        "Read image file [image/png]<image/png iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB>"
    );
    png[17] = 0xff;
    png[18] = 0xff;
    fs::write(setup.path("b.png"), &png).unwrap();
    assert!(setup.read("b.png").unwrap_err().contains("16776961 x 1 pixels"));
    fs::write(setup.path("c.bin"), [0_u8; 2_048]).unwrap();
    let note = "[Binary file, 2.0KB: it is not text, and not an image that can be shown]";
    assert_eq!(setup.read("c.bin").unwrap(), note);
}

#[test]
fn a_cancelled_call_changes_nothing() {
    let setup = Setup::new();
    setup.write("a", "old").unwrap();
    let cancel = Cancel::default();
    cancel.cancel();
    let params = json!({ "path": "a", "content": "new" }).to_string();
    let error = setup.workspace.call("write", &params, &cancel).unwrap_err();
    assert_eq!(error.to_string(), "Operation aborted");
    assert_eq!(bytes(setup.path("a")), b"old");
}

#[test]
fn a_name_that_is_swapped_all_the_time_never_leads_out() {
    let setup = Setup::new();
    for name in ["inside", "swap-file"] {
        fs::create_dir_all(setup.path("d")).unwrap();
        fs::write(setup.path(name), "inside").unwrap();
    }
    fs::write(setup.path("d/secret"), "inside").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // Both directions fail now and then, because a write makes the name a file again.
                let _linked = symlink("../outside", setup.path("t1"))
                    .and_then(|()| fs::rename(setup.path("t1"), setup.path("e")));
                let _removed = fs::remove_file(setup.path("e"));
                let _moved = fs::rename(setup.path("d"), setup.path("e"));
                let _back = fs::rename(setup.path("e"), setup.path("d"));
                let _linked = symlink("../outside/secret", setup.path("t2"))
                    .and_then(|()| fs::rename(setup.path("t2"), setup.path("swap-file")));
                let _linked = fs::write(setup.path("t3"), "inside")
                    .and_then(|()| fs::rename(setup.path("t3"), setup.path("swap-file")));
            }
        });
        let mut read = 0;
        for _ in 0..300 {
            for path in ["e/secret", "swap-file"] {
                if let Ok(text) = setup.read(path) {
                    assert_ne!(text, "secret");
                    read += 1;
                }
            }
            let _written = setup.write("e/made", "inside");
            let _written = setup.write("swap-file", "inside");
            let _edited = setup.edit("e/secret", "secret", "inside");
        }
        stop.store(true, Ordering::Relaxed);
        assert!(read > 0, "no read succeeded, so nothing was proven");
    });
    assert_eq!(bytes(setup.outside("secret")), b"secret");
    assert_eq!(fs::read_dir(setup.outside("")).unwrap().count(), 1);
}
