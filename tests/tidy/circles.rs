//! Checks that files do not use each other in circles, so that they can be read one by one.
//!
//! An item that a `mod.rs` re-exports counts as a use of the file that defines it. It must never need a build.

use std::collections::{BTreeMap, BTreeSet};

use crate::none;
use crate::source::{Source, paths, sources, words};

/// An absolute path: the modules and the item from the crate's root.
pub(crate) type Path = Vec<String>;

/// `src/turn/machine/mod.rs` → `turn`, `machine`.
fn module_of(source: &Source) -> Path {
    let inside = source.inside.trim_end_matches(".rs");
    let inside = inside.strip_suffix("/mod").unwrap_or(inside);
    inside.split('/').filter(|name| *name != "lib").map(str::to_owned).collect()
}

/// Every path in `source` that begins with `crate::`, `super::`, `self::`, or a child module.
fn named(source: &Source, module: &Path, modules: &BTreeSet<Path>) -> Vec<Path> {
    let mut all = Vec::new();
    let mut add = |rest: &str, base: &[String]| {
        let mut found = Vec::new();
        paths(rest, &[], &mut found);
        all.extend(found.into_iter().filter_map(|path| absolute(base, &path)));
    };
    let base = crate_of(source);
    for at in words(&source.code, "crate") {
        if let Some(rest) = source.code[at..].strip_prefix("crate::") {
            add(rest, &base);
        }
    }
    for at in words(&source.code, "super") {
        let follows = source.code[..at].ends_with("::");
        if let Some(rest) = source.code[at..].strip_prefix("super::").filter(|_| !follows)
            && let Some((_, parent)) = module.split_last()
        {
            add(rest, parent);
        }
    }
    for at in words(&source.code, "self") {
        if let Some(rest) = source.code[at..].strip_prefix("self::") {
            add(rest, module);
        }
    }
    let below =
        modules.iter().filter(|other| other.split_last().is_some_and(|(_, up)| up == module));
    for child in below.filter_map(|child| child.last()) {
        for at in words(&source.code, child) {
            let is_path = source.code[at + child.len()..].starts_with("::");
            if is_path && !source.code[..at].ends_with("::") {
                add(&source.code[at..], module);
            }
        }
    }
    all
}

/// The meaning of `crate` in `source`: the root, or its leaf crate.
fn crate_of(source: &Source) -> Path {
    if source.path.starts_with("crates/") { vec![source.module.clone()] } else { Vec::new() }
}

/// `super::a` seen from `base` is `a` one module up.
fn absolute(base: &[String], path: &[String]) -> Option<Path> {
    let mut whole = base.to_vec();
    for name in path {
        match name.as_str() {
            "super" => drop(whole.pop()?),
            "self" => {}
            name => whole.push(name.to_owned()),
        }
    }
    Some(whole)
}

/// The items that a file re-exports, with their origin.
fn re_exports(source: &Source, module: &Path) -> BTreeMap<String, Path> {
    let mut items = BTreeMap::new();
    for at in words(&source.code, "use") {
        let before = source.code[..at].trim_end();
        let is_public = before.ends_with("pub") || (before.ends_with(')') && is_visibility(before));
        if !is_public {
            continue;
        }
        let mut found = Vec::new();
        paths(source.code[at + 3..].trim_start(), &[], &mut found);
        for path in found {
            let own = crate_of(source);
            let base: &[String] =
                if path.first().is_some_and(|name| name == "crate") { &own } else { module };
            let path: Path = path.into_iter().filter(|name| name != "crate").collect();
            if let (Some(whole), Some(item)) = (absolute(base, &path), path.last()) {
                items.insert(item.clone(), whole);
            }
        }
    }
    items
}

fn is_visibility(before: &str) -> bool {
    before.rfind("pub(").is_some_and(|open| !before[open..before.len() - 1].contains(')'))
}

/// The file of a path, resolved through re-exports.
fn file_of(
    path: &Path,
    modules: &BTreeSet<Path>,
    re_exported: &BTreeMap<Path, BTreeMap<String, Path>>,
    steps: usize,
) -> Option<Path> {
    let depth = (0..=path.len()).rev().find(|depth| modules.contains(&path[..*depth]))?;
    let (module, rest) = path.split_at(depth);
    let next = rest.first().and_then(|item| re_exported.get(module)?.get(item));
    match next {
        Some(next) if steps > 0 && next != path => file_of(next, modules, re_exported, steps - 1),
        _ => Some(module.to_vec()),
    }
}

/// Sets of modules that all use each other, directly or not.
pub(crate) fn circles(uses: &BTreeMap<Path, BTreeSet<Path>>) -> Vec<Vec<Path>> {
    let reach: BTreeMap<&Path, BTreeSet<&Path>> = uses
        .keys()
        .map(|from| {
            let mut seen = BTreeSet::new();
            let mut open = vec![from];
            while let Some(at) = open.pop() {
                for next in uses.get(at).into_iter().flatten() {
                    if seen.insert(next) {
                        open.push(next);
                    }
                }
            }
            (from, seen)
        })
        .collect();
    let mut done: BTreeSet<Path> = BTreeSet::new();
    let mut found = Vec::new();
    for (from, reached) in &reach {
        if done.contains(*from) || !reached.contains(from) {
            continue;
        }
        let circle: Vec<Path> = reached
            .iter()
            .filter(|to| reach.get(*to).is_some_and(|back| back.contains(from)))
            .map(|to| (*to).clone())
            .collect();
        done.extend(circle.iter().cloned());
        found.push(circle);
    }
    found
}

/// Which modules each file uses, without tests; a re-exported name counts as a use of its definition.
pub(crate) fn uses() -> BTreeMap<Path, BTreeSet<Path>> {
    let sources: Vec<Source> = sources().into_iter().filter(|source| !source.is_test).collect();
    let modules: BTreeSet<Path> = sources.iter().map(module_of).collect();
    let re_exported: BTreeMap<Path, BTreeMap<String, Path>> = sources
        .iter()
        .map(|source| (module_of(source), re_exports(source, &module_of(source))))
        .collect();
    let mut uses = BTreeMap::new();
    for source in &sources {
        let module = module_of(source);
        let own: BTreeSet<Path> = re_exported[&module].values().cloned().collect();
        let targets: BTreeSet<Path> = named(source, &module, &modules)
            .iter()
            .filter(|path| !own.contains(*path))
            .filter_map(|path| file_of(path, &modules, &re_exported, 8))
            .filter(|target| *target != module && !target.is_empty())
            .collect();
        uses.insert(module, targets);
    }
    uses
}

#[test]
fn files_do_not_use_each_other_in_circles() {
    let uses = uses();
    let names = |circle: Vec<Path>| -> String {
        circle.iter().map(|module| module.join("/")).collect::<Vec<_>>().join(" ")
    };
    none(&circles(&uses).into_iter().map(names).collect::<Vec<_>>());
}
