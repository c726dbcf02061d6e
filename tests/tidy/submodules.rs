//! Checks the submodules: each table of `ARCHITECTURE.md` under "Submodules of …" defines which of a module's folders and
//! files may use which. It must never need a build.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::circles::{Path, circles, uses};
use crate::none;
use crate::source::{root, sources, table, words};

/// The modules that have a table of submodules, each with its table.
fn tables() -> BTreeMap<String, BTreeMap<String, Vec<String>>> {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let headings = map.lines().filter_map(|line| line.strip_prefix("## Submodules of `"));
    let modules = headings.map(|rest| rest.trim_end().trim_end_matches('`'));
    modules.map(|module| (module.to_owned(), table(&format!("Submodules of `{module}`")))).collect()
}

#[test]
fn a_submodule_uses_only_the_submodules_it_may() {
    let uses = uses();
    let mut bad = Vec::new();
    for (module, may) in tables() {
        let inner = |path: &Path| (path.first() == Some(&module)).then(|| path.get(1).cloned())?;
        let mut seen = BTreeSet::new();
        for (user, targets) in &uses {
            let Some(from) = inner(user) else { continue };
            seen.insert(from.clone());
            let Some(allowed) = may.get(&from) else {
                bad.push(format!("give `{from}` a row under \"Submodules of `{module}`\""));
                continue;
            };
            for target in targets {
                if let Some(to) = inner(target)
                    && to != from
                    && !allowed.contains(&to)
                {
                    let (file, target) = (user.join("/"), target.join("/"));
                    bad.push(format!("src/{file}: `{from}` may not use `{to}` (`{target}`)"));
                }
            }
        }
        let gone = may.keys().filter(|name| !seen.contains(*name));
        bad.extend(gone.map(|name| format!("`{module}` has no `{name}`: drop its row")));
    }
    bad.sort();
    bad.dedup();
    none(&bad);
}

#[test]
fn submodules_are_used_one_way_only() {
    let mut bad = Vec::new();
    for (module, may) in tables() {
        let graph: BTreeMap<Path, BTreeSet<Path>> = may
            .iter()
            .map(|(from, to)| (vec![from.clone()], to.iter().map(|it| vec![it.clone()]).collect()))
            .collect();
        bad.extend(circles(&graph).iter().map(|circle| format!("`{module}`: {circle:?}")));
    }
    none(&bad);
}

#[test]
fn a_mod_file_of_a_module_with_submodules_only_re_exports_names() {
    let modules = tables();
    let mut bad = Vec::new();
    for source in sources().iter().filter(|source| modules.contains_key(&source.module)) {
        let is_mod = source.path.ends_with("/mod.rs") && !source.is_test;
        let kinds = ["fn", "struct", "enum", "impl", "trait", "const", "static"];
        if is_mod && kinds.iter().any(|kind| !words(&source.code, kind).is_empty()) {
            bad.push(format!(
                "{}: re-export names, and define them in files of their own",
                source.path
            ));
        }
    }
    none(&bad);
}
