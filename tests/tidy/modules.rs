//! Checks modules, crates and banned calls against `ARCHITECTURE.md` and `clippy.toml`. It must never need a build.

use std::collections::BTreeSet;
use std::fs;

use crate::none;
use crate::source::{Source, line, paths, root, sources, table, words};

#[test]
fn a_module_uses_only_the_modules_it_may() {
    let may = table("Which module may use which");
    let leaves = leaf_crates();
    let mut bad = Vec::new();
    for source in sources().iter().filter(|source| !source.module.is_empty()) {
        let Some(allowed) = may.get(&source.module) else {
            bad.push(format!("{}: give `{}` a row in ARCHITECTURE.md", source.path, source.module));
            continue;
        };
        let mut check = |at: usize, path: &[String]| {
            let own = path[0] == source.module;
            let fits = |entry: &String| {
                let entry: Vec<&str> = entry.split("::").collect();
                path.len() >= entry.len() && entry.iter().zip(path).all(|(a, b)| a == b)
            };
            if !own && !allowed.iter().any(fits) {
                let (file, line) = (&source.path, line(&source.code, at));
                bad.push(format!(
                    "{file}:{line}: `{}` may not use `{}`",
                    source.module,
                    path.join("::")
                ));
            }
        };
        // In a leaf crate, `crate` is the module itself, and Cargo checks the others.
        let in_root = source.path.starts_with("src/");
        for at in words(&source.code, "crate").into_iter().filter(|_| in_root) {
            let Some(rest) = source.code[at..].strip_prefix("crate::") else { continue };
            let mut found = Vec::new();
            paths(rest, &[], &mut found);
            found.iter().filter(|path| !path.is_empty()).for_each(|path| check(at, path));
        }
        for leaf in leaves.iter().filter(|leaf| may.contains_key(*leaf)) {
            for at in words(&source.code, leaf) {
                let is_path = source.code[at + leaf.len()..].starts_with("::");
                let is_whole = !source.code[..at].ends_with("::");
                if is_path && is_whole {
                    check(at, std::slice::from_ref(leaf));
                }
            }
        }
        // `super::` up to the crate root is the same as `crate::`.
        let depth =
            source.inside.trim_end_matches("/mod.rs").matches('/').count() + usize::from(in_root);
        let climb = "super::".repeat(depth);
        for (at, _) in source.code.match_indices(&climb) {
            let mut found = Vec::new();
            paths(&source.code[at + climb.len()..], &[], &mut found);
            let is_module =
                |path: &&Vec<String>| path.first().is_some_and(|name| may.contains_key(name));
            found.iter().filter(is_module).for_each(|path| check(at, path));
        }
    }
    none(&bad);
}

/// The modules that are leaf crates.
fn leaf_crates() -> BTreeSet<String> {
    let entries = fs::read_dir(root().join("crates")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_leaf_crate_depends_on_the_modules_of_its_row() {
    let may = table("Which module may use which");
    let mut bad = Vec::new();
    for leaf in leaf_crates() {
        let manifest =
            fs::read_to_string(root().join("crates").join(&leaf).join("Cargo.toml")).unwrap();
        let (_, rest) = manifest.split_once("[dependencies]\n").expect("dependencies");
        let dependencies = rest.split("\n[").next().unwrap();
        let names = dependencies.lines().filter_map(|line| line.split(['.', ' ']).next());
        let used: BTreeSet<&str> = names.filter(|name| may.contains_key(*name)).collect();
        let allowed: BTreeSet<&str> = may[&leaf].iter().map(String::as_str).collect();
        if used != allowed {
            bad.push(format!("crates/{leaf} depends on {used:?}, and its row says {allowed:?}"));
        }
    }
    none(&bad);
}

#[test]
fn modules_do_not_use_each_other_in_circles() {
    let mut may = table("Which module may use which");
    let known: BTreeSet<String> = may.keys().cloned().collect();
    for (module, uses) in &may {
        for used in uses {
            let first = used.split("::").next().unwrap();
            assert!(
                known.contains(first) && first != module,
                "`{module}` may use `{used}`, which is no other module"
            );
        }
    }
    // Remove the modules that use no remaining module; a circle remains. A port (`a::b`) is no room.
    while let Some(free) = may
        .iter()
        .find(|(_, uses)| uses.iter().all(|used| !may.contains_key(used)))
        .map(|(module, _)| module.clone())
    {
        may.remove(&free);
    }
    assert_eq!(
        may.keys().collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "these modules use each other"
    );
}

#[test]
fn a_crate_is_named_only_in_its_modules() {
    let mut bad = Vec::new();
    for (name, modules) in table("Which module may name which crate") {
        for source in sources().iter().filter(|source| !modules.contains(&source.module)) {
            for at in words(&source.code, &name) {
                let (before, after) = (&source.code[..at], &source.code[at + name.len()..]);
                let is_path = after.starts_with("::") && !before.ends_with("::");
                if is_path || before.ends_with("use ") || before.ends_with("#[") {
                    bad.push(format!(
                        "{}:{}: `{name}` belongs to {modules:?} alone",
                        source.path,
                        line(&source.code, at)
                    ));
                }
            }
        }
    }
    none(&bad);
}

#[test]
fn only_its_owner_makes_a_banned_call() {
    let bans = fs::read_to_string(root().join("clippy.toml")).unwrap();
    let mut owners = BTreeSet::new();
    let mut bad = Vec::new();
    let sources = sources();
    let is_owner = |source: &Source, owner: &str| {
        source.inside.strip_prefix(owner).is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
    };
    for ban in bans.lines().filter(|line| line.contains("path = ")) {
        let strings: Vec<&str> = ban.split('"').skip(1).step_by(2).collect();
        let owner = strings[1].split(' ').next().unwrap();
        assert!(strings[1].contains(" owns "), "say who owns `{}` in clippy.toml", strings[0]);
        owners.insert(owner.to_owned());
        let segments: Vec<&str> = strings[0].rsplitn(3, "::").collect();
        let call = format!("{}::{}", segments[1], segments[0]);
        for source in sources.iter().filter(|source| !is_owner(source, owner)) {
            for at in words(&source.code, &call) {
                let line = line(&source.code, at);
                bad.push(format!("{}:{line}: `{call}` belongs to {owner}", source.path));
            }
        }
    }
    for source in &sources {
        if source.code.contains("disallowed_methods")
            && !owners.iter().any(|owner| is_owner(source, owner))
        {
            bad.push(format!("{}: owns no banned call, and may lift no ban", source.path));
        }
    }
    none(&bad);
}
