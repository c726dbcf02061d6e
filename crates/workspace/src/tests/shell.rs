//! `bash` with hostile commands. Nothing that a command started may be left, whatever it does.

use std::io::Read;
use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::{Background, Output, Sandbox, ShellLimits, ShellOptions, support};

fn options() -> ShellOptions {
    let environment = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/nowhere")];
    ShellOptions {
        sandbox: Sandbox::Preferred,
        network: false,
        timeout_ms: 60_000,
        background: Background::End,
        own_home: true,
        limits: ShellLimits::default(),
        environment: environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
    }
}

pub(super) struct Shells {
    pub(super) dir: tempfile::TempDir,
    workspace: Workspace,
}

impl Shells {
    pub(super) fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut ShellOptions)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["work", "outside", "manual", "tmp"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("outside/secret"), "secret").unwrap();
        fs::write(dir.path().join("manual/page"), "page").unwrap();
        let mut shell = options();
        change(&mut shell);
        let workspace = Workspace::open(&WorkspaceOptions {
            workspace: dir.path().join("work"),
            read_roots: vec![dir.path().join("manual")],
            shell: Some(shell),
            temporary: dir.path().join("tmp"),
            ..WorkspaceOptions::default()
        });
        Self { workspace: workspace.unwrap(), dir }
    }

    fn output(&self, params: &Value, cancel: &Cancel) -> Result<Output, String> {
        self.workspace.call("bash", &params.to_string(), cancel).map_err(|error| error.to_string())
    }

    pub(super) fn bash(&self, command: &str) -> Result<String, String> {
        let output = self.output(&json!({ "command": command }), &Cancel::default())?;
        match output.content.as_slice() {
            [Block::Text { text }] => Ok(text.clone()),
            other => panic!("{other:?}"),
        }
    }
}

/// The processes whose command has a word.
pub(super) fn processes(word: &str) -> Vec<rustix::process::Pid> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let name = entry.file_name().into_string().unwrap();
        if let Ok(number) = name.parse()
            && String::from_utf8_lossy(&command).contains(word)
        {
            found.extend(rustix::process::Pid::from_raw(number));
        }
    }
    found
}

fn running(word: &str) -> usize {
    processes(word).len()
}

#[test]
fn a_command_runs_in_the_workspace_with_a_cleaned_environment() {
    let shells = Shells::new();
    assert_eq!(shells.bash("echo out; echo err >&2; echo out").unwrap(), "out\nerr\nout\n");
    let at = shells.dir.path().join("work");
    assert_eq!(
        shells.bash("pwd -P").unwrap().trim(),
        fs::canonicalize(at).unwrap().to_str().unwrap()
    );
    let environment = shells.bash("env | cut -d= -f1 | sort | tr '\\n' ' '").unwrap();
    assert_eq!(environment, "HOME NEXUS_AGENT_CALL PATH PWD SHLVL TMPDIR _ ");
    assert_eq!(shells.bash("umask; cat").unwrap(), "0077\n");
    // A handle that a library of the host opened without a thought.
    let inherited = rustix::io::dup(fs::File::open("/dev/null").unwrap()).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&inherited);
    assert!(shells.bash(&format!("cat <&{number}")).is_err());
    assert_eq!(shells.bash("true").unwrap(), "(no output)");
    assert_eq!(shells.bash("echo x; exit 3").unwrap_err(), "x\n\n\nCommand exited with code 3");
    assert_eq!(
        shells.bash("kill -9 $$").unwrap_err(),
        "(no output)\n\nCommand was ended by signal 9"
    );
    assert_eq!(shells.bash("echo $TMPDIR > t; echo x > $TMPDIR/y; cat $TMPDIR/y").unwrap(), "x\n");
    assert_eq!(fs::metadata(shells.dir.path().join("work/t")).unwrap().mode() & 0o777, 0o600);
    let temporary = shells.dir.path().join("tmp");
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 1);
    drop(shells.workspace);
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
}

#[test]
fn the_sandbox_allows_the_workspace_and_nothing_beside_it() {
    let sandbox = support().sandbox;
    assert!(sandbox.files, "this kernel has no Landlock, so that nothing is proven here");
    let shells = Shells::with(|shell| shell.sandbox = Sandbox::Required);
    let dir = shells.dir.path().display().to_string();
    assert_eq!(
        shells.bash("echo a > a && mkdir d && mv a d/b && cat d/b && rm -r d").unwrap(),
        "a\n"
    );
    assert_eq!(shells.bash(&format!("cat {dir}/manual/page")).unwrap(), "page");
    for command in [
        format!("cat {dir}/outside/secret"),
        format!("ls {dir}/outside"),
        format!("echo x > {dir}/outside/new"),
        format!("echo x > {dir}/manual/page"),
        format!("ln {dir}/outside/secret here"),
        format!("ln -s {dir}/outside/secret link && cat link"),
        format!("mv {dir}/outside/secret ."),
        format!("truncate -s 0 {dir}/outside/secret"),
        format!("cp -r {dir}/outside ."),
        "echo x > /etc/nexus-test".to_owned(),
        "ls /root".to_owned(),
        "ls /tmp".to_owned(),
        "cat /proc/$PPID/environ".to_owned(),
        format!("cat /proc/{}/environ", std::process::id()),
        "ls /proc".to_owned(),
        "mknod device c 1 3".to_owned(),
    ] {
        let error = shells.bash(&command).expect_err(&command);
        assert!(!error.contains("secret\n"), "{command}: {error}");
    }
    assert_eq!(bytes(shells.dir.path().join("outside/secret")), b"secret");
    assert_eq!(bytes(shells.dir.path().join("manual/page")), b"page");
    assert_eq!(fs::read_dir(shells.dir.path().join("outside")).unwrap().count(), 1);
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected");
    assert_eq!(shells.bash(&connect).is_err(), sandbox.tcp);
    let home = shells.bash("echo x > ~/x && cat ~/x && echo $HOME").unwrap();
    assert!(home.starts_with(&format!("x\n{}/tmp/", dir)), "{home}");
    let own = std::process::id();
    assert_eq!(shells.bash(&format!("kill -0 {own}")).is_err(), sandbox.signals);
    let open = Shells::with(|shell| {
        shell.sandbox = Sandbox::Required;
        shell.network = true;
    });
    assert_eq!(open.bash(&connect).unwrap(), "connected\n");
    let off = Shells::with(|shell| shell.sandbox = Sandbox::Off);
    assert_eq!(off.bash(&format!("cat {dir}/outside/secret")).unwrap(), "secret");
}

#[test]
fn nothing_is_left_of_a_command_however_it_hides() {
    let shells = Shells::new();
    for (at, command) in [
        "sleep NUMBER & echo started",
        "setsid sleep NUMBER & echo started",
        "(setsid sleep NUMBER > /dev/null 2>&1 &) & echo started",
        "setsid sh -c 'setsid sleep NUMBER & exit' > /dev/null 2>&1 & sleep 0.1; echo started",
        "trap '' TERM HUP INT; sleep NUMBER & disown; echo started",
        "for i in 1 2 3 4 5 6 7 8; do setsid sh -c 'sleep NUMBER & sleep NUMBER' & done; echo started",
    ]
    .into_iter()
    .enumerate()
    {
        let number = format!("{}.{at}", 7_000_000 + std::process::id());
        let text = shells.bash(&command.replace("NUMBER", &number)).unwrap();
        assert!(text.starts_with("started\n\n\n["), "{command}: {text}");
        assert_eq!(running(&number), 0, "{command}");
    }
    let one = shells.bash("setsid sleep 1000 & echo started").unwrap();
    assert_eq!(one, "started\n\n\n[A process that it left running was ended]");
    let two = shells.bash("sleep 1000 & sleep 1000 & echo started").unwrap();
    assert_eq!(two, "started\n\n\n[2 processes that it left running were ended]");
}

#[test]
fn a_command_ends_at_its_time_limit_and_at_an_abort_whatever_it_ignores() {
    let shells = Shells::new();
    for (at, command) in [
        "sleep NUMBER",
        "trap 'echo no' TERM; while true; do sleep NUMBER; done",
        "setsid sleep NUMBER & trap '' TERM; yes > /dev/null",
        "yes NUMBER",
        "exec > /dev/null 2>&1; setsid sleep NUMBER & sleep NUMBER",
    ]
    .into_iter()
    .enumerate()
    {
        let number = format!("{}.{at}", 8_000_000 + std::process::id());
        let command = command.replace("NUMBER", &number);
        let params = json!({ "command": command, "timeout": 0.3 });
        let error = shells.output(&params, &Cancel::default()).unwrap_err();
        assert!(error.ends_with("Command timed out after 0.3 seconds"), "{command}: {error}");
        assert_eq!(running(&number), 0, "{command}");
        let cancel = Cancel::default();
        std::thread::scope(|scope| {
            let cancelled = cancel.clone();
            scope.spawn(move || {
                while running(&number) == 0 {
                    std::thread::sleep(Duration::from_millis(5));
                }
                cancelled.cancel();
            });
            let error =
                shells.output(&json!({ "command": params["command"] }), &cancel).unwrap_err();
            assert!(error.ends_with("Command aborted"), "{error}");
        });
        assert_eq!(running(&format!("{}.{at}", 8_000_000 + std::process::id())), 0);
    }
}

#[test]
fn a_shell_that_ends_returns_though_its_pipe_stays_open() {
    let shells = Shells::with(|shell| shell.background = Background::Keep);
    let number = format!("{}", 9_000_000 + std::process::id());
    assert_eq!(shells.bash(&format!("sleep {number} & echo started")).unwrap(), "started\n");
    assert_eq!(running(&number), 1);
    assert_eq!(shells.bash("yes | head -n 2").unwrap(), "y\ny\n");
    for pid in processes(&number) {
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
}

#[test]
fn a_long_output_is_in_a_file_that_can_be_read_and_its_ends_are_shown() {
    let shells = Shells::new();
    let output = shells.output(&json!({ "command": "seq 1 100000" }), &Cancel::default()).unwrap();
    let [Block::Text { text }] = output.content.as_slice() else { panic!("{output:?}") };
    assert!(text.starts_with("1\n2\n3\n") && text.ends_with("\n99999\n100000\n"));
    let path = output.details.unwrap()["fullOutputPath"].as_str().unwrap().to_owned();
    let note = format!("\n\n[447.1KB left out here. Full output: {path}]\n\n");
    assert!(text.contains(&note), "{}", text.get(32_700..33_000).unwrap());
    assert_eq!(text.len(), 128 * 1024 + note.len());
    let read =
        |params: Value| shells.workspace.call("read", &params.to_string(), &Cancel::default());
    let page = read(json!({ "path": path, "offset": 50_000, "limit": 1 })).unwrap();
    let [Block::Text { text }] = page.content.as_slice() else { panic!("{page:?}") };
    assert!(text.starts_with("50000\n\n["), "{text}");
    assert!(shells.bash(&format!("echo x >> {path}")).is_err());
    let write = json!({ "path": path, "content": "x" }).to_string();
    assert!(shells.workspace.call("write", &write, &Cancel::default()).is_err());
    assert_eq!(bytes(path).len(), 588_895);
}

#[test]
fn a_gigabyte_of_output_needs_no_memory() {
    let resident = || {
        let mut text = String::new();
        fs::File::open("/proc/self/status").unwrap().read_to_string(&mut text).unwrap();
        let peak = text.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        peak.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1024
    };
    let shells = Shells::new();
    shells.bash("true").unwrap();
    let before = resident();
    let bytes: u64 = if cfg!(debug_assertions) { 200_000_000 } else { 1_000_000_000 };
    let text = shells.bash(&format!("head -c {bytes} /dev/zero")).unwrap();
    assert!(text.len() < 129 * 1024);
    let risen = resident() - before;
    println!("{bytes} bytes: {risen} MiB more");
    assert!(risen < 16, "{risen} MiB");
}

#[test]
fn what_is_printed_is_reported_as_it_comes() {
    let shells = Shells::new();
    let updates = Mutex::new(Vec::new());
    // The command goes on when the update has come.
    let update = |output: Output| {
        let mut updates = updates.lock().unwrap();
        updates.push(output.content);
        fs::write(shells.dir.path().join("work").join(updates.len().to_string()), "").unwrap();
    };
    let command =
        "for i in 1 2 3; do echo $i; while [ ! -e $i ]; do sleep 0.01; done; done; echo end";
    let params = json!({ "command": command }).to_string();
    let ended =
        shells.workspace.call_with_updates("bash", &params, &Cancel::default(), &update).unwrap();
    let texts = updates.into_inner().unwrap();
    let expected = ["1\n", "1\n2\n", "1\n2\n3\n"];
    let expected = expected.map(|text| vec![Block::Text { text: text.to_owned() }]);
    assert_eq!(texts.get(..3).unwrap(), expected);
    assert_eq!(ended.content, [Block::Text { text: "1\n2\n3\nend\n".to_owned() }]);
}

#[test]
fn a_ledger_in_the_workspace_and_a_sandbox_that_is_not_there_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let open = |protect: &str, sandbox| {
        Workspace::open(&WorkspaceOptions {
            workspace: dir.path().to_owned(),
            read_roots: Vec::new(),
            protect: vec![dir.path().join(protect)],
            shell: Some(ShellOptions { sandbox, ..options() }),
            temporary: dir.path().to_owned(),
        })
    };
    let error = open("agent.db", Sandbox::Preferred).unwrap_err();
    assert_eq!(error.field, "protect[0]");
    assert!(error.message.contains("is in the workspace, where `bash` could change it"));
    assert!(open("../agent.db", Sandbox::Preferred).is_ok());
    let required = open("../agent.db", Sandbox::Required);
    assert_eq!(required.is_ok(), support().sandbox.files && support().sandbox.tcp);
}

#[test]
fn a_ledger_that_this_process_has_open_is_touched_by_no_tool() {
    let shells = Shells::new();
    let path = |name: &str| shells.dir.path().join("work").join(name);
    fs::write(path("agent.db"), "ledger").unwrap();
    fs::write(path("agent.db-wal"), "ledger").unwrap();
    fs::hard_link(path("agent.db"), path("alias")).unwrap();
    let read = |name: &str| {
        let params = json!({ "path": name }).to_string();
        shells.workspace.call("read", &params, &Cancel::default()).is_ok()
    };
    let first = crate::protect(path("agent.db"));
    let second = crate::protect(path("agent.db"));
    drop(first);
    assert_eq!(["agent.db", "agent.db-wal", "alias"].map(read), [false; 3]);
    let error = shells.bash("true").unwrap_err();
    assert!(error.starts_with("a ledger of this process: `") && error.contains("in the workspace"));
    drop(second);
    assert_eq!(["agent.db", "agent.db-wal", "alias"].map(read), [true; 3]);
    assert_eq!(shells.bash("true").unwrap(), "(no output)");
}

#[test]
fn a_long_result_of_any_tool_is_in_a_file_that_can_be_read_and_goes_with_the_workspace() {
    let shells = Shells::new();
    let path = shells.workspace.spill("lookup", "a\nb\n").unwrap();
    let read = |path: &Path| {
        let params = json!({ "path": path }).to_string();
        shells.workspace.call("read", &params, &Cancel::default()).map(|output| output.content)
    };
    assert_eq!(read(&path).unwrap(), [Block::Text { text: "a\nb\n".to_owned() }]);
    // No tool writes there, and a shell of the sandbox neither.
    let params = json!({ "path": path, "content": "c" }).to_string();
    assert!(shells.workspace.call("write", &params, &Cancel::default()).is_err());
    if support().sandbox.files {
        assert!(shells.bash(&format!("echo c > {}", path.display())).is_err());
    }
    let other = shells.workspace.spill("lookup", "c").unwrap();
    assert_ne!(path, other);
    drop(shells.workspace);
    assert!(!path.exists() && !other.exists());
}

#[test]
fn each_process_of_a_command_has_the_limits_of_the_options_and_leaves_no_core() {
    let limits = ShellLimits {
        cpu_seconds: Some(7),
        file_bytes: Some(64 * 1024),
        memory_bytes: Some(1 << 30),
        open_files: Some(32),
        processes: None,
    };
    let shells = Shells::with(|options| options.limits = limits);
    let shown = "ulimit -t; ulimit -v; ulimit -n; ulimit -c; ulimit -f";
    assert_eq!(shells.bash(shown).unwrap(), "7\n1048576\n32\n0\n64\n");
    // Its children have them too.
    assert_eq!(shells.bash("sh -c 'ulimit -n' | cat").unwrap(), "32\n");
    let error = shells.bash("head -c 100000 /dev/zero > long").unwrap_err();
    assert!(error.contains("File size limit exceeded") || error.contains("signal"), "{error}");
    assert_eq!(fs::metadata(shells.dir.path().join("work/long")).unwrap().len(), 64 * 1024);
    assert_eq!(Shells::new().bash("ulimit -c").unwrap(), "0\n");
}

#[test]
fn a_command_with_more_processes_than_its_limit_is_ended_with_all_of_them() {
    let shells = Shells::with(|options| {
        options.limits.processes = Some(40);
    });
    // In its session, in sessions of their own, and each making others.
    for command in [
        "for i in $(seq 60); do sleep 600 & done; wait",
        "for i in $(seq 400); do setsid sleep 600 & done; wait",
        "grow() { grow | grow & wait; }; grow",
    ] {
        let error = shells.bash(command).unwrap_err();
        assert!(
            error.ends_with("Command was ended: it ran more than 40 processes at once"),
            "{error}"
        );
        assert!(!error.contains("could not all be ended"), "{command}");
    }
    // The shell ends at once, and what it left may be ended before there is too much of it.
    for command in
        ["grow() { grow | grow & }; grow", "grow() { grow | grow & }; grow > /dev/null 2>&1"]
    {
        let (Ok(output) | Err(output)) = shells.bash(command);
        let is_ended =
            output.contains("that it left running w") || output.contains("was ended: it");
        assert!(is_ended && !output.contains("could not all be ended"), "{output}");
    }
    assert_eq!(
        shells.bash("for i in $(seq 30); do sleep 0.01 & done; wait; echo well").unwrap(),
        "well\n"
    );
}

#[test]
fn output_without_an_end_and_children_without_number_end_with_the_time_limit() {
    let shells = Shells::new();
    for command in [
        "yes | cat",
        "trap '' TERM INT HUP; while :; do sleep 0.01 & done",
        "for i in $(seq 30); do setsid sh -c '(sleep 600 &) ; sleep 600' & done; wait",
    ] {
        let params = json!({ "command": command, "timeout": 0.3 });
        let error = shells.output(&params, &Cancel::default()).unwrap_err();
        assert!(error.contains("Command timed out after 0.3 seconds"), "{command}: {error}");
        assert!(!error.contains("could not all be ended"), "{command}");
    }
    assert_eq!(shells.bash("yes | head -n 2").unwrap(), "y\ny\n");
}
