//! What is left of commands and of processes that were killed: what hides in the moment in which it starts, and old temporary files.

use super::shell::{Shells, processes};
use super::*;

/// While a process starts another program, its environment reads as empty.
#[test]
fn a_process_that_starts_itself_again_and_again_is_found() {
    let shells = Shells::new();
    let script = shells.dir.path().join("work/again");
    fs::write(&script, "#!/bin/sh\nexec \"$0\" \"$@\"\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
    for round in 0..20 {
        let word = format!("again-{}-{round}", std::process::id());
        let command = format!(
            "for i in 1 2 3 4; do setsid ./again {word} > /dev/null 2>&1 & done; echo started"
        );
        let text = shells.bash(&command).unwrap();
        assert!(text.starts_with("started\n"), "{text}");
        assert_eq!(processes(&word), [], "round {round}");
    }
}

#[test]
fn the_files_of_a_process_that_was_killed_are_removed_and_those_in_use_are_not() {
    let (old, new) = (Shells::new(), Shells::new());
    let beneath = old.dir.path().join("tmp");
    let names = || {
        let mut names: Vec<_> =
            fs::read_dir(&beneath).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    old.bash("echo x").unwrap();
    let in_use = names();
    assert_eq!(in_use.len(), 1);
    // Of a process of that number in another container, or of none: nobody has its lock.
    for name in ["nexus-agent-1-0/output", "nexus-agent-4000000-7/tmp/deep"] {
        fs::create_dir_all(beneath.join(name)).unwrap();
        fs::write(beneath.join(name).join("bash-0.log"), "secret").unwrap();
    }
    for name in ["nexus-agent-x-1", "nexus-agent-12", "nexus-agent-1-2-3", "mine"] {
        fs::create_dir(beneath.join(name)).unwrap();
    }
    symlink(new.dir.path(), beneath.join("nexus-agent-9-9")).unwrap();
    let workspace = Workspace::open(&WorkspaceOptions {
        workspace: new.dir.path().join("work"),
        temporary: beneath.clone(),
        ..WorkspaceOptions::default()
    })
    .unwrap();
    let spilled = workspace.spill("lookup", "a").unwrap();
    let own = spilled.ancestors().nth(2).unwrap().file_name().unwrap().to_owned();
    let mut expected = in_use;
    expected.push(own);
    let others =
        ["nexus-agent-x-1", "nexus-agent-12", "nexus-agent-1-2-3", "mine", "nexus-agent-9-9"];
    expected.extend(others.map(Into::into));
    expected.sort();
    assert_eq!(names(), expected);
    assert!(new.dir.path().join("work").exists());
}
